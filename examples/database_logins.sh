# The logins of the processes at the database, made once with it. What each may do is said by
# `actionledger run setup`. Run by the image of Postgres; a password for all of them, for trying out.
for role in projector reconciler processor executor gateway analyst operator; do
    psql --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" \
        --set=role="actionledger_$role" --set=password="$POSTGRES_PASSWORD" <<'END'
create role :"role" login password :'password';
END
done
