"""Every maximum of the ledger's ground in one place, and how they relate.

What enters is bounded at the door, so nothing behind it needs a bound of its own: bytes bound depth
and count, count bounds time. A limit here is part of what was promised to the log: it may grow,
never shrink, because records written under it must be read for ever.
"""

INTEGER_MAX = 2**53 - 1
"""The largest integer every JSON reader holds exactly (I-JSON, RFC 7493). Offsets, times and money
too.
"""

INTEGER_CHARS_MAX = 17
"""Digits of INTEGER_MAX and a sign: a longer number is refused before anything converts it."""

COMPONENT_CHARS_MAX = 128
"""One component of a key: tenant, business event, item, environment."""

OPERATION_CHARS_MAX = 64
"""The name of an operation, dots included."""

OPERATION_VERSION_MAX = 9_999
"""A new meaning of an operation is rare; a fifth digit is a mistake."""

REVISION_MAX = 9_999
"""Far above STREAM_ACTIONS_MAX, since revisions may be numbered by the caller's own count."""

ACTION_KEY_CHARS_MAX = (
    OPERATION_CHARS_MAX + len(":v9999") + 3 * (COMPONENT_CHARS_MAX + 1) + len("~9999")
)
"""Operation, version, tenant, event, item and revision with what stands between: 462."""

GATE_NAME_CHARS_MAX = 256
"""The name of a gate as it stands in its key; a longer or stranger one stands there as a hash."""

IDENTIFIER_CHARS_MAX = 256
"""A free identifier: target, principal, a parameter of type identifier."""

TEXT_CHARS_MAX = 1_024
"""Any short text on a wire; holds every action key (462), identifier (256) and path (256)."""

PATH_CHARS_MAX = 256
"""A path in an error; keys in it come from the caller, so a longer one is shortened."""

EXCERPT_CHARS_MAX = 200
"""A caller's value quoted in an error or a difference."""

INTENT_BYTES_MAX = 64 * 1_024
"""One intent as it arrives. Bounds the canonical form too: normal form C grows a text at most three
times.
"""

MARKS_MAX = 30
"""Combining marks in a row in text that has yet to be brought into normal form C."""

REQUEST_DEPTH_MAX = 24
"""Levels of a request; the other eight of JSON_DEPTH_MAX are for what it travels in."""

JSON_DEPTH_MAX = 32
"""Objects and arrays within each other; far below the interpreter's own recursion limit."""

DIFFERENCES_MAX = 32
"""Differences or problems named in one answer; the first ones tell the story."""

STREAM_ACTIONS_MAX = 64
"""Actions of one business event."""

STREAM_ACTIONS_ORDINARY_MAX = 48
"""Ordinary intents stop here; what is left is for compensations and revisions."""

BACKOFF_DOUBLINGS_MAX = 32
"""The exponent of a backoff stops growing here; its cap was reached long before."""

DURATION_MS_MAX = 400 * 24 * 3_600_000
"""Any duration in the operation catalogue: a little over a year."""

ATTEMPTS_MAX = 20
"""Attempts an operation may declare; each is a call to the outside world."""

LOOKUPS_MAX = 16
"""Lookups an operation may plan for one unknown outcome."""

CATALOGUE_BYTES_MAX = 192 * 1_024
"""The catalogue's source text in UTF-8. Adopted whole into every partition: as a JSON string it may
double, and still fits DECISION_BYTES_MAX.
"""

CATALOGUE_OPERATIONS_MAX = 512
"""Operations and versions of one catalogue; a few hundred characters each fill the text."""

PARAMETERS_MAX = 64
"""Parameters of one operation."""

CHOICES_MAX = 64
"""Values a parameter may be limited to; principals, and other short lists of one operation."""

HOLDS_MAX = 128
"""Holds in force at once: each opening of an epoch tells them all, and people have to oversee them.
"""

MISTAKES_MAX = 50
"""Mistakes named at once for one catalogue."""

PEOPLE_BYTES_MAX = 192 * 1_024
"""The source text of who may decide, in UTF-8; adopted whole like the catalogue."""

PEOPLE_MAX = 512
"""People of one installation who may decide; a few hundred characters each fill the text."""

PERSON_KEYS_MAX = 16
"""Keys and passkeys of one person, revoked ones among them."""

PERSON_NAMES_MAX = 256
"""Groups, tenants or principals of one person."""

SOURCES_KEPT_MAX = 256
"""Evidence sources an action remembers so that each counts once; the oldest are forgotten first."""

NAMES_TOLD_MAX = 16
"""Names of effects, and of objects that came to nothing, that an action remembers of its evidence:
with the second name it is a person's, so more of them change nothing.
"""

DENIES_MAX = 4_096
"""Attempts of which one piece of evidence may say that they had no effect: more than people can
have started.
"""

REVERSALS_KEPT_MAX = 64
"""What was given back of one effect, each with its amount; of what comes then the sum is kept, and
each piece as evidence.
"""

DECLINES_MAX = 8
"""Starts given back before a person looks; each costs a record and no byte at the provider."""

WEBHOOK_BYTES_MAX = 1_024 * 1_024
"""A webhook's raw body at the door."""

WEBHOOK_HEADERS_MAX = 32
"""Headers of a webhook that are kept beside its body: those that were signed or name the event."""

RECORD_BYTES_MAX = 1_024 * 1_024
"""One record of the ledger and of every topic without a limit of its own."""

DECISION_BYTES_MAX = 448 * 1_024
"""One ledger record; a larger decision becomes a small quarantine, so that it always fits a batch.
"""

BATCH_INPUTS_MAX = 1_000
"""Inputs that one partition's owner decides before it appends; the rest waits for the next round.
"""

BATCH_BYTES_MAX = 512 * 1_024
"""One produce batch; below the broker's message limit, so that a batch is never refused for its
size.
"""

QUARANTINE_BATCH_BYTES_MAX = 4 * WEBHOOK_BYTES_MAX
"""What the topic `quarantine` takes at once."""

QUARANTINED_BYTES_MAX = 3 * WEBHOOK_BYTES_MAX
"""One record as it is written there, in base64 and with every escape: a key and a value as large as
a batch that is not compressed brings (2 MiB) have room whole. Of what would be larger, as a
compressed batch or strange header names may make it, the beginning is kept.
"""

QUARANTINED_BEGINNING_BYTES = 64 * 1_024
"""How much of the value, and of the key, of a larger one."""

OFFERS_REMEMBERED_MAX = 1_024
"""Incarnations whose offers one partition's owner keeps; older ones have lapsed long before."""

STARTS_REMEMBERED_MAX = 4_096
"""Starts remembered for one incarnation: more than it can hold at once and not have read."""

TICKS_MAX = 1_000
"""Ticks that one owner has written and not yet answered; what is due beyond that waits."""

RECORDS_KEPT_MAX = 16_384
"""Ledger records whose bytes an executor keeps, for starts that point to an earlier intent; an
older one is read again at its place.
"""

RECORDS_KEPT_BYTES_MAX = 16 * 1_024 * 1_024
"""And how many bytes those may be."""

OFFERS_UNSPENT_MAX = 1_024
"""Offers of one incarnation and partition whose sending time is remembered. At the most they are
made every 20 ms, and they lapse after six seconds: 300 are enough.
"""

GROUP_SESSION_MS_DEFAULT = 10_000
"""After so long without a word from a member of a group its partitions go to others: how long a
processor that was killed is missed. Above any pause of a process that lives.
"""

GROUP_SESSION_MS_NAMED = 45_000
"""The same for a member with a name of its own: as long as its restart, with the machine's, may
take; until then nobody else takes what is its own.
"""

GROUP_SESSION_MS_MIN = 1_000
GROUP_SESSION_MS_MAX = 300_000
"""What may be chosen instead, within what brokers allow by themselves."""

PREVIEWS_MAX = 5
"""Previews of one action that the provider may fail to give before a person is told."""

PREVIEW_WAIT_MS = 30_000
"""Between one failed preview and the next."""

FORESEEN_BYTES_MAX = 64 * 1_024
"""What a provider may foresee of one action, in canonical form: as much as an intent says. It
travels in the start, beside the signatures, and both fit DECISION_BYTES_MAX.
"""

OBSERVED_MAX = 32
"""Volatile facts of one preview."""

CHECKS_MAX = 16
"""Checks shown with one preview."""

LINEAGE_SHOWN_MAX = CHECKS_MAX - 4
"""Earlier actions whose fate is shown with one that revises them, the newest first."""

QUORUM_MAX = 16
"""People that one decision may need; their signatures travel in the start."""

BEHALF_MAX = 8
"""People and services on whose behalf one intent is made."""

LOOKUPS_UNANSWERED_MAX = 16
"""Lookups of one action beyond its schedule that may come back without an answer, before a person
looks.
"""

POLICY_BYTES_MAX = CATALOGUE_BYTES_MAX
"""The policy's source text in UTF-8, adopted like the catalogue."""

POLICY_ROWS_MAX = 256
"""Rows of one decision table; a person has to be able to read it from the top."""

GROUPS_MAX = 16
"""Groups of people that one row names."""

APPROVAL_VALID_MS_MIN = 1_000
APPROVAL_VALID_MS_MAX = 7 * 24 * 3_600_000
"""How long a request for approval may stand. What was shown grows old: a week is far too long for
money, and the most that anybody needs for a planned change.
"""

COMMENT_CHARS_MAX = 1_024
"""What a person says about a case that they settle."""

RESOLUTION_VALID_MS_MAX = 600_000
"""How long after it was issued a resolution may count: what was looked at grows old."""

RESUMES_MAX = 16
"""How often people may let one action go on after it had come to them: each time costs at most as
many starts given back and questions as the first.
"""

CEILINGS_MAX = 32
"""Ceilings of one policy, and of one of its rows: each that applies is a reservation more."""

RESERVATIONS_MAX = 512
"""Reservations that one gate keeps open or in its queue; who comes then is refused, and says so."""

RECENT_MAX = 64
"""Requests that the gate of a target remembers for their look-alike windows; the oldest are
forgotten first.
"""

REPORTERS_MAX = 32
"""Who may report steps of one run, each with a count of its own."""

GATE_RESEND_MS = 5_000
"""After so long without an answer a message to or from a gate is sent again, ever more slowly."""

GATE_RESEND_MS_MAX = 300_000

TARGETS_MAX = 8
"""Targets of one action."""

SAGA_STEPS_MAX = 16
"""Steps of one saga. With a compensation for each it fits one business event, beside others."""
