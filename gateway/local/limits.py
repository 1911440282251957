"""Every maximum of the local servers, and how they relate.

Called by the rest of this package only. Units are in the names.
"""

# --- disk ----------------------------------------------------------------------------------------
# A broker that meets a full disk takes its log directory offline: not started near it.
FREE_BYTES_MIN = 200 * 1024 * 1024
LOG_FILE_BYTES_MAX = 10 * 1024 * 1024  # then it becomes NAME.1; one older file is kept
STILL_MS_MAX = 15_000  # a service says each second that it moves, unless the machine is very busy
LOG_TAIL_BYTES_MAX = 16 * 1024  # what is read back to tell why a process ended

# --- fetching ------------------------------------------------------------------------------------
FETCH_THREADS = 8
FETCH_TRIES_MAX = 3
FETCH_TIMEOUT_SECONDS = 30  # for one request of one artifact
FETCH_RETRY_MS = 500

# --- processes -----------------------------------------------------------------------------------
POLL_MS = 20  # how often a waited-for condition is looked at
FOLLOW_MS = 50  # how often whoever waits for a start reads how far it is
CREATED_AT_TOLERANCE_MS = 2_000  # the boot time that start times count from may step by a second
KILL_MS_MAX = 10_000  # from SIGKILL to gone; longer means stuck in the kernel
ONCE_MS_MAX = 120_000  # initdb, formatting, assembling the AOT cache
SERVICE_STOP_MS_MAX = 10_000  # a service finishes what it holds, then SIGKILL; see the crash tests

LEFTOVER_STOP_MS_MAX = 10_000  # what a killed run left gets this long to end by itself
ABANDONED_SECONDS_MIN = 60  # a temporary folder may be that young and not held yet

SERVICE_READY_MS_MAX = 60_000
PROBE_MS = 50  # how often an HTTP probe asks
PROBE_SECONDS_MAX = 2
# A crashed program is started again at once, then ever later; one that ran well starts over.
RESTART_MS_FIRST = 200
RESTART_MS_MAX = 10_000
FAULTS_IN_A_ROW_MAX = 30  # then it stays down; trouble of its surroundings does not count
HEALTHY_MS_MIN = 30_000
WATCH_MS = 100  # how soon a crash is seen
ROTATE_MS = 5_000  # how often logs are looked at; a log may outgrow its limit by that much output
# The supervisor as a whole: above the sum of what it waits for.
UP_MS_MAX = 300_000
DOWN_MS_MAX = 60_000
BUSY_MS_MAX = 5_000  # a folder that is held but is not starting belongs to somebody else
TRAINING_DELAY_MS = 60_000  # after the first start, when whoever started it has had a look
TRAINING_NICE = 10

# --- servers -------------------------------------------------------------------------------------
# First start on a busy machine takes 6 s; recovery after a crash reads the unflushed segments.
KAFKA_READY_MS_MAX = 120_000
POSTGRES_READY_MS_MAX = 120_000
# Above the longest clean stop seen; after it comes SIGKILL, which loses nothing acknowledged.
KAFKA_STOP_MS_MAX = 30_000
POSTGRES_STOP_MS_MAX = 20_000
KAFKA_HEAP_MB = 512
OFFSETS_RETENTION_MINUTES = 5_256_000  # ten years
TRAINING_USE_SECONDS_MAX = 60
AOT_CACHES_MAX = 3
# A killed broker is refused until its old session has ended, so the session is short. But one that
# gets no processor for so long has no leaders any more, as if it were dead: with a second that came
# about twelve times in half an hour beside other work. The heartbeat has to fit several times.
KAFKA_SESSION_MS = 4_000
KAFKA_HEARTBEAT_MS = 500
# Consumers of crash tests may ask for short sessions too.
GROUP_SESSION_MS_MIN = 1_000
# A unix socket's path has to fit sockaddr_un (108 bytes on Linux, 104 on macOS) with its name.
SOCKET_FOLDER_BYTES_MAX = 80
POSTGRES_CONNECTIONS_MAX = 100

# --- ports: below every system's ephemeral range, where outgoing connections would take them ------
PORT_MIN = 20_000
PORT_MAX = 29_999
PORT_TRIES_MAX = 100
