# One image for every process; the command says which one it is: `run processor`, `run gateway`, ...

FROM python:3.11-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1
WORKDIR /src
# The tools that build the wheel stay in this stage, in an environment of their own.
COPY requirements-dev.lock .
RUN python -m venv /opt/tools && /opt/tools/bin/pip install --require-hashes -r requirements-dev.lock
COPY requirements.lock .
RUN python -m venv /opt/actionledger \
    && /opt/actionledger/bin/pip install --require-hashes -r requirements.lock
COPY . .
RUN /opt/tools/bin/hatchling build -t wheel -d /dist \
    && /opt/actionledger/bin/pip install --no-deps --no-index /dist/*.whl

FROM python:3.11-slim
# State of a process that keeps any (the simulated provider's book): a volume takes over its owner.
RUN useradd --system --uid 10001 --home-dir /var/lib/actionledger --create-home actionledger
COPY --from=build /opt/actionledger /opt/actionledger
ENV PATH=/opt/actionledger/bin:$PATH PYTHONUNBUFFERED=1
USER actionledger
WORKDIR /var/lib/actionledger
ENTRYPOINT ["actionledger"]
CMD ["--help"]
