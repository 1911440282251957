"""Public failure cases about text and numbers: how a value was written must neither make another
action of it nor slip past a list, and what has no one meaning is refused at every door by its name.
"""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core import inputs as i
from ledger.core.catalogue import Catalogue, parse_catalogue
from ledger.core.config import Config
from ledger.core.limits import INTEGER_MAX
from ledger.core.rejections import Rejection
from ledger.core.request import Request, request_hash
from ledger.core.strict_json import JsonFault, MalformedJson, parse
from ledger.log.envelope import Unreadable, outgoing, read_input
from ledger.log.port import Record
from tests.examples import CATALOGUE_TEXT, CHARGE, STREAM, offer, propose, request
from tests.unit.core.language import Story

COMPOSED, DECOMPOSED = "R\u00e9", "Re\u0301"


def fault_of(raw: bytes) -> JsonFault:
    """By which name a text is refused."""
    with pytest.raises(MalformedJson) as refused:
        parse(raw)
    return refused.value.code


def under(field: str) -> Config:
    """The examples' catalogue with more said about the text of a charge."""
    text = CATALOGUE_TEXT.replace(
        '[operation.parameters.text]\ntype = "string"\n',
        f'[operation.parameters.text]\ntype = "string"\n{field}\n',
        1,
    )
    parsed = parse_catalogue(text)
    assert isinstance(parsed, Catalogue), parsed
    return Config(parsed, parsed.content_hash)


NUMBERS = [
    (b"1.2345678901234567", JsonFault.FLOAT_REFUSED),
    (b"1e6", JsonFault.FLOAT_REFUSED),
    (b"1E6", JsonFault.FLOAT_REFUSED),
    (b"1e+6", JsonFault.FLOAT_REFUSED),
    (b"1000000.0", JsonFault.FLOAT_REFUSED),
    (b"-0.0", JsonFault.FLOAT_REFUSED),
    (b"0e0", JsonFault.FLOAT_REFUSED),
    (b"1e400", JsonFault.FLOAT_REFUSED),
    (b"-1e400", JsonFault.FLOAT_REFUSED),
    (b"1e-400", JsonFault.FLOAT_REFUSED),
    (b"NaN", JsonFault.NOT_A_NUMBER),
    (b"Infinity", JsonFault.NOT_A_NUMBER),
    (b"-Infinity", JsonFault.NOT_A_NUMBER),
    (b"nan", JsonFault.NOT_JSON),
    (b"+1", JsonFault.NOT_JSON),
    (b"01", JsonFault.NOT_JSON),
    (b"0x10", JsonFault.NOT_JSON),
    (b"1_000", JsonFault.NOT_JSON),
    (b".5", JsonFault.NOT_JSON),
    (b"\xd9\xa1", JsonFault.NOT_JSON),
    (str(INTEGER_MAX + 1).encode(), JsonFault.INTEGER_TOO_LARGE),
    (str(-INTEGER_MAX - 1).encode(), JsonFault.INTEGER_TOO_LARGE),
    (b"9" * 60_000, JsonFault.INTEGER_TOO_LARGE),
]


@pytest.mark.case("C179")
@pytest.mark.case("C187")
@pytest.mark.parametrize(("number", "fault"), NUMBERS, ids=lambda one: str(one)[:20])
@pytest.mark.parametrize("place", ['{"n":%}', '{"a":{"b":[1,%]}}', "[%]"])
def test_c179_c187_a_number_with_more_than_one_meaning_is_refused_anywhere(
    number: bytes, fault: JsonFault, place: str
) -> None:
    """C179, C187: fractions, exponents, NaN and numbers beyond what every reader holds are refused
    wherever they stand, also where their value is whole.
    """
    found = fault_of(place.encode().replace(b"%", number))
    if fault is JsonFault.NOT_JSON:
        assert found in {JsonFault.NOT_JSON, JsonFault.TRAILING_DATA}
    else:
        assert found is fault


@pytest.mark.case("C179")
def test_c179_a_quantity_has_one_spelling_and_is_one_action() -> None:
    """C179: 1000000 is taken, 1e6 is refused: no two spellings can be two effects, nor one replay
    of the other. Minus nought is nought.
    """
    story = Story()
    key = "note:v1:acme:renewal-1"
    taken = request(key, text="1000000")
    story.hears(i.Propose(key=key, request=taken), offer=offer(key=key))
    story.hears(i.Propose(key=key, request=taken), at=5).then_unchanged("replayed")
    assert story.count("attempt.started", key) == 1
    zero = parse(b'{"n":-0}')
    assert json.dumps(zero) == '{"n": 0}'


DUPLICATES = [
    b'{"a":1,"a":1}',
    b'{"a":1,"\\u0061":1}',
    b'{"a":{"b":[{"c":1,"d":2,"c":3}]}}',
    b'[[[{"":1,"":2}]]]',
    b'{"\\u00e9":1,"\xc3\xa9":2}',
]


@pytest.mark.case("C181")
@pytest.mark.parametrize("raw", DUPLICATES)
def test_c181_a_member_that_is_there_twice_is_refused_at_any_depth(raw: bytes) -> None:
    """C181: which of two a store would keep is nobody's to guess; the spelling of the name does not
    hide it.
    """
    assert fault_of(raw) is JsonFault.DUPLICATE_KEY


@pytest.mark.case("C181")
def test_c181_two_names_that_are_one_in_normal_form_are_refused() -> None:
    """C181: they would be one member of the canonical form, with the value of the last."""
    with pytest.raises(ValueError, match="normal form"):
        Request.model_validate(
            {**request().model_dump(), "params": {"x": [{COMPOSED: 1, DECOMPOSED: 2}]}}
        )


SURROGATES = [
    b'"hi \\ud83d"',
    b'"\\ude00\\ud83d"',
    b'"\\ud83d \\ude00"',
    b'"\\uD83D\\u0041"',
    b'{"\\udfff":1}',
    b'{"a":[{"b":"\\ud800"}]}',
]


@pytest.mark.case("C183")
@pytest.mark.parametrize("raw", SURROGATES)
def test_c183_half_a_character_is_refused_wherever_it_stands(raw: bytes) -> None:
    """C183: alone, the wrong way round, with something between, in a name, deep inside."""
    assert fault_of(raw) is JsonFault.LONE_SURROGATE
    assert parse(b'"\\ud83d\\ude00"') == "\U0001f600"


@pytest.mark.case("C183")
@pytest.mark.parametrize(
    "raw", [b'"\xed\xa0\xbd"', b'"\xc0\x80"', b'"\xf5\x80\x80\x80"', b'"\xff"']
)
def test_c183_bytes_that_are_no_text_are_refused(raw: bytes) -> None:
    """C183: half a character in bytes, a NUL in two bytes, and what lies beyond Unicode."""
    assert fault_of(raw) is JsonFault.NOT_UTF8


@pytest.mark.case("C183")
def test_c183_an_inbox_record_with_half_a_character_is_set_aside_by_name() -> None:
    """C183: who writes to the topic itself meets the same rule as who comes through the door."""
    good = outgoing(propose(), stream=STREAM, subject=CHARGE, event_id="1", source="/t").value
    bad = good.replace(b'"environment":"live"', b'"environment":"live\\ud83d"')
    assert bad != good
    read = read_input(Record("intents", 0, 1, 0, None, bad, ()))
    assert isinstance(read, Unreadable)
    assert read.reason == "lone_surrogate"


@pytest.mark.case("C185")
def test_c185_two_spellings_of_one_word_are_one_request() -> None:
    """C185: free text is hashed, compared and sent in one normal form, so the second spelling is a
    replay and never a second effect; an identifier in another spelling is refused by name.
    """
    story = Story()
    story.hears(propose(request=request(text=COMPOSED)), offer=offer())
    again = propose(request=request(text=DECOMPOSED))
    story.hears(again, at=5, offer=offer()).then_unchanged("replayed")
    assert story.count("attempt.started") == 1
    with pytest.raises(ValueError, match="normal form"):
        Request.model_validate({**request().model_dump(), "target": f"order:{DECOMPOSED}"})


@pytest.mark.case("C185")
@pytest.mark.parametrize("listed", [COMPOSED, DECOMPOSED])
@pytest.mark.parametrize("asked", [COMPOSED, DECOMPOSED])
def test_c185_a_list_knows_a_word_in_every_spelling(listed: str, asked: str) -> None:
    """C185: the other form neither slips past the list nor is wrongly refused by it."""
    config = under(f'values = ["{listed}", "other"]')
    story = Story(config)
    story.hears(propose(request=request(text=asked)), offer=offer())
    assert story.count("intent.recorded") == 1
    refused = Story(config).hears(propose(request=request(text=asked + "!")), offer=offer())
    refused.then_rejected(Rejection.INVALID_REQUEST)


@pytest.mark.case("C185")
def test_c185_a_length_is_that_of_what_is_sent() -> None:
    """C185: two characters are two, however many code points they came in."""
    config = under("length_max = 2")
    for text in (COMPOSED, DECOMPOSED):
        story = Story(config)
        story.hears(propose(request=request(text=text)), offer=offer())
        assert story.count("intent.recorded") == 1


@pytest.mark.case("C185")
@pytest.mark.parametrize("listed", [COMPOSED, DECOMPOSED])
def test_c185_who_may_ask_is_known_in_every_spelling(listed: str) -> None:
    """C185: an operator who typed a name in another form than the caller's credential has allowed
    that name, and no other.
    """
    text = CATALOGUE_TEXT.replace('principals = ["agent:*"]', f'principals = ["agent:{listed}"]')
    parsed = parse_catalogue(text)
    assert isinstance(parsed, Catalogue), parsed
    story = Story(Config(parsed, parsed.content_hash))
    asked = request().model_dump() | {"principal": f"agent:{COMPOSED}"}
    story.hears(propose(request=asked), offer=offer())
    assert story.count("intent.recorded") == 1
    key = f"{CHARGE}#other"
    story.hears(i.Propose(key=key, request=request())).then_rejected(Rejection.NOT_ALLOWED)


@pytest.mark.case("C185")
@given(st.text(max_size=20))
def test_c185_the_hash_is_that_of_the_normal_form(text: str) -> None:
    """C185: for any text that may stand in a request, every spelling has one hash."""
    if "\0" in text or any("\ud800" <= one <= "\udfff" for one in text):
        return
    spellings = {text, *(unicodedata.normalize(form, text) for form in ("NFC", "NFD"))}
    hashes = set()
    for spelling in spellings:
        try:
            hashes.add(request_hash(request(text=spelling)))
        except ValueError:
            return
    assert len(hashes) == 1


@pytest.mark.case("C189")
def test_c189_what_only_spells_a_nul_goes_through_the_log_unchanged() -> None:
    """C189: the six characters come back as they were sent, through hash and envelope, and are
    another request than the text without them; the character itself is refused.
    """
    texts = ["\\u0000", "\\\\u0000", "\\ud83d", "\\x00", "%00", "&#0;", "a\\u0000b"]
    for text in texts:
        given_in = propose(request=request(text=text))
        record = outgoing(given_in, stream=STREAM, subject=CHARGE, event_id="1", source="/t")
        read = read_input(Record("intents", 0, 1, 0, record.key, record.value, record.headers))
        assert isinstance(read, i.Propose)
        assert read.request.params == {"text": text}
    hashes = {request_hash(request(text=text)) for text in [*texts, "", "u0000", "u0000b"]}
    assert len(hashes) == len(texts) + 3
    assert fault_of(b'{"a":"x\\u0000"}') is JsonFault.NUL_CHARACTER
    assert fault_of(b'{"a\\u0000":1}') is JsonFault.NUL_CHARACTER
    assert fault_of(b'{"a":"x\0"}') is JsonFault.NUL_CHARACTER
