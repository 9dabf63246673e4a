"""roxy.toml: what it says, or everything that is wrong with it in one go (S9-S11).

`parse` takes text and `read` takes a working tree, so that the manifest of another commit goes
through the same rules. Only `read` knows the patches.
"""

from __future__ import annotations

import posixpath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from roxy.core import glob, regular_file, terms, toml_text
from roxy.core.errors import ConfigError, Fault
from roxy.core.model import MANIFEST, Check, Claim, Manifest
from roxy.core.regular_file import MEBIBYTE, MissingFileError, UnreadableFileError
from roxy.core.toml_text import Place, TomlError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from roxy.core.errors import RoxyError
    from roxy.core.toml_outline import Key, Outline, Repeat

MAX_MANIFEST = 4 * MEBIBYTE
MAX_PATCH = 32 * MEBIBYTE
MAX_PATCHES = 64 * MEBIBYTE
"""Of all patches together, since all are held at once."""
MAX_PATTERNS = MEBIBYTE
"""Characters of all that the globs of one manifest mean, once their braces are written out."""

_FILE = MANIFEST.decode()
_TOP_KEYS = ("claims", "defaults", "secrets")
_CLAIM_KEYS = ("description", "checks")
_CHECK_KEYS = (
    "run",
    "covers",
    "mutation",
    "timeout",
    "fails-with",
    "env",
    "inputs",
    "needs",
    "repeat",
    "strict",
    "ran",
    "at-least",
    "reproduces",
)
_DEFAULT_KEYS = ("timeout", "env", "needs", "strict")
_REQUIRED_CHECK_KEYS = ("run", "covers")
_NOWHERE = Place(0, 0)
_A_CHECK = "a check is a table of its own: `[claims.NAME.checks.NAME]`"
_EXAMPLE = "\n# [claims."
_BEGIN = "take the `# ` off the example that it holds, and make it yours"
_PATCH_PATHS = "a mutation is named by its path below the top of the working tree"
_FROM_AN_EDIT = "`roxy try NAME --edits --save FILE` writes one from an edit"
_PATCH_FILES = "a mutation is a file in the working tree; see to its path, permissions and disk"
_READABLE = "it is a file that roxy must be able to read; see to its permissions and disk"
_KINDS = {
    bool: "a boolean",  # before int, of which it is one
    str: "a string",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "a table",
}


def parse(text: str) -> tuple[Claim, ...]:
    """Return the claims that the text of a manifest makes, in its order.

    Raises `ConfigError` with every fault that shows without the files it names (S9, S10, S13).
    """
    survey = _survey(text)
    survey.refuse_faults()
    return survey.claims


def read_claims(root: int) -> tuple[Claim, ...]:
    """Return the claims of the working tree whose top is `root`, without a look at any patch.

    Raises `ConfigError` as `parse` does.
    """
    return parse(_text(root))


def read(root: int, *, for_a_try: bool = False) -> Manifest:
    """Return the manifest of the working tree whose top is the directory descriptor `root`.

    Raises `ConfigError` with every fault, in the order of the file: those of `parse`, and each
    patch that cannot be read (S11). A try brings a mutation along: for one, a check may be without
    `mutation`, and a patch that does not exist is left out of `patches`.
    """
    survey = _survey(_text(root), lacks_mutations=for_a_try)
    patches: dict[str, bytes] = {}
    troubles: dict[str, tuple[str, str]] = {}
    room = MAX_PATCHES
    with regular_file.Folders(root) as folders:
        for path in dict.fromkeys(path for _, path in survey.mutations):
            try:
                patches[path] = folders.read(path.encode(), MAX_PATCH)
            except MissingFileError as error:
                if not for_a_try:
                    troubles[path] = (f"patch `{path}` {error}", _FROM_AN_EDIT)
                continue
            except UnreadableFileError as error:
                troubles[path] = (f"patch `{path}` {error}", _PATCH_FILES)
                continue
            room -= len(patches[path])
            if room < 0:
                size = f"{MAX_PATCHES // MEBIBYTE} MiB"
                what = f"the patches up to `{path}` are together larger than {size}"
                troubles[path] = (what, "a mutation needs no more than the lines that it changes")
                break
    survey.findings.extend(
        _Finding(key, *troubles[path]) for key, path in survey.mutations if path in troubles
    )
    survey.refuse_faults()
    return Manifest(survey.claims, patches, survey.secrets)


def _text(root: int) -> str:
    try:
        data = regular_file.read(root, MANIFEST, MAX_MANIFEST, follow_links=True)
        return toml_text.decode(data)
    except MissingFileError as error:
        what = f"there is no `{_FILE}` at the top of the working tree"
        raise ConfigError(what, hint=f"begin one with a claim; {_A_CHECK}") from error
    except UnreadableFileError as error:
        raise ConfigError(f"`{_FILE}` {error}", hint=_READABLE) from error
    except TomlError as error:
        raise _config_error([_unparsable(error)], None) from error


class _Finding(NamedTuple):
    """One thing that is wrong, and which key it is about."""

    key: Key
    what: str
    hint: str | None = None
    place: Place | None = None
    """Set where it is not that of the key."""


_NO_CLAIM = _Finding(("claims",), "no claim is declared", _A_CHECK)


def _unparsable(error: TomlError) -> _Finding:
    return _Finding((), f"`{_FILE}` {error}", error.hint, error.place)


def _config_error(findings: Iterable[_Finding], outline: Outline | None) -> RoxyError:
    """Return one error for all that was found, in the order of the file."""

    def place(finding: _Finding) -> Place:
        return finding.place or (outline and outline.place(finding.key)) or _NOWHERE

    return ConfigError.of(
        [
            Fault(finding.what, _where(place(finding), finding.key), finding.hint)
            for finding in sorted(findings, key=place)
        ]
    )


def _where(place: Place, key: Key) -> str:
    where = _FILE if place == _NOWHERE else f"{_FILE}:{place.line}:{place.column}"
    match key:
        case ("claims", claim, "checks", check, *_):
            return f"{where}, check `{claim}/{check}`"
        case ("claims", claim, *_):
            return f"{where}, claim `{claim}`"
        case _:
            return where


class _Survey(NamedTuple):
    """What one text says. Sound only once `refuse_faults` has returned."""

    text: str
    claims: tuple[Claim, ...]
    mutations: Sequence[tuple[Key, str]]
    """Each path of a patch, if it can be one, with the key that names it."""
    findings: list[_Finding]
    secrets: tuple[str, ...]

    def refuse_faults(self) -> None:
        if self.findings:
            raise _config_error(self.findings, _outline(self.text))


def _survey(text: str, *, lacks_mutations: bool = False) -> _Survey:
    findings: list[_Finding] = []
    torn: list[Key] = []
    try:
        document = toml_text.parse(text)
    except TomlError as error:
        outline = _outline(text)
        findings += map(_repeated, outline.repeats)
        torn += (repeat.key for repeat in outline.repeats if repeat.is_table)
        document = _parse_without_repeats(outline, error, findings)
    reader = _Reader(torn, findings, lacks_mutations=lacks_mutations)
    claims = tuple(reader.claims(document))
    if findings == [_NO_CLAIM] and _EXAMPLE in text:
        findings[0] = _NO_CLAIM._replace(hint=_BEGIN)
    return _Survey(text, claims, reader.mutations, findings, reader.secrets(document))


def _parse_without_repeats(
    outline: Outline, error: TomlError, findings: Sequence[_Finding]
) -> dict[str, Any]:
    """Read on behind duplicate keys, at the first of which the parser stopped with `error`."""
    if outline.repeats:
        try:
            return toml_text.parse(outline.text_without_repeats())
        except TomlError as another:
            error = another
    raise _config_error([*findings, _unparsable(error)], outline) from error


def _repeated(repeat: Repeat) -> _Finding:
    return _Finding(
        repeat.key,
        f"duplicate {'table' if repeat.is_table else 'key'} `{repeat.key[-1]}`",
        f"it stands first on line {repeat.first.line}",
        repeat.place,
    )


def _outline(text: str) -> Outline:
    from roxy.core.toml_outline import outline  # noqa: PLC0415 - most manifests are sound

    return outline(text)


class _Defaults(NamedTuple):
    """What holds for every check that says nothing else itself."""

    timeout: float | None = None
    env: Mapping[str, str] = MappingProxyType({})
    needs: tuple[str, ...] = ()
    strict: bool = False


class _Reader:
    """Turns values into claims, and notes what is wrong with them."""

    def __init__(
        self, torn: Iterable[Key], findings: list[_Finding], *, lacks_mutations: bool
    ) -> None:
        self.mutations: list[tuple[Key, str]] = []
        self._findings = findings
        self._lacks_mutations = lacks_mutations
        self._excused = set(torn)
        """Keys below which something may be missing: another fault accounts for it."""
        self._known_globs: set[str] = set()
        self._room = MAX_PATTERNS
        self._defaults = _Defaults()

    def claims(self, document: dict[str, Any]) -> Iterator[Claim]:
        self._refuse_keys((), document, _TOP_KEYS)
        self._defaults = self._read_defaults(document)
        for key, table in self._tables(("claims",), document, _NO_CLAIM.what):
            yield self._claim(key, table)

    def secrets(self, document: dict[str, Any]) -> tuple[str, ...]:
        names = self._strings((), document, "secrets")
        seen: set[str] = set()
        for key, name in names:
            if fault := _variable_fault(name):
                self._note(key, f"the name of a variable {fault}")
            elif name in seen:
                self._note(key, f"`secrets` names `{name}` twice")
            seen.add(name)
        return tuple(name for _, name in names)

    def _read_defaults(self, document: dict[str, Any]) -> _Defaults:
        key, table = ("defaults",), document.get("defaults", {})
        if not isinstance(table, dict):
            self._note(key, f"`defaults` must be a table, not {_kind(table)}")
            return _Defaults()
        self._refuse_keys(key, table, _DEFAULT_KEYS)
        return _Defaults(
            self._timeout(key, table),
            self._env(key, table),
            self._needs(key, table),
            self._strict(key, table),
        )

    def _claim(self, key: Key, table: dict[str, Any]) -> Claim:
        name = str(key[-1])
        self._refuse_keys(key, table, _CLAIM_KEYS)
        checks = self._tables((*key, "checks"), table, f"claim `{name}` has no check")
        return Claim(
            name,
            self._string(key, table, "description"),
            tuple(self._check(name, *check) for check in checks),
        )

    def _check(self, claim: str, key: Key, table: dict[str, Any]) -> Check:
        self._refuse_keys(key, table, _CHECK_KEYS, _REQUIRED_CHECK_KEYS)
        if not self._lacks_mutations and not any(
            name in table or (*key, name) in self._excused for name in ("mutation", "reproduces")
        ):
            self._note_missing((*key, "mutation"), "`mutation` is missing", _FROM_AN_EDIT)
        return Check(
            claim=claim,
            name=str(key[-1]),
            run=self._run(key, table),
            covers=self._globs(key, table, "covers"),
            mutations=self._mutations(key, table),
            timeout=self._timeout(key, table) or self._defaults.timeout,
            fails_with=self._pattern(key, table, "fails-with"),
            env=terms.in_order({**self._defaults.env, **self._env(key, table)}),
            inputs=self._globs(key, table, "inputs"),
            needs=self._needs(key, table) if "needs" in table else self._defaults.needs,
            ran=self._pattern(key, table, "ran", groups=1),
            at_least=self._at_least(key, table),
            reproduces=self._reproduces(key, table),
            repeat=self._count(key, table, "repeat"),
            strict=self._strict(key, table) if "strict" in table else self._defaults.strict,
        )

    def _run(self, key: Key, table: dict[str, Any]) -> str:
        run = self._string(key, table, "run")
        if run is None:
            return ""
        self._refuse_command((*key, "run"), "`run`", run)
        return run

    def _needs(self, key: Key, table: dict[str, Any]) -> tuple[str, ...]:
        needs = self._strings(key, table, "needs", or_none=True)
        for key_of_command, command in needs:
            self._refuse_command(key_of_command, "a command of `needs`", command)
        return tuple(command for _, command in needs)

    def _refuse_command(self, key: Key, name: str, command: str) -> None:
        if not command.strip():
            self._note(key, f"{name} must not be empty")
        if "\0" in command:
            self._note(key, f"{name} holds a NUL character, which no command can")

    def _globs(self, key: Key, table: dict[str, Any], name: str) -> tuple[str, ...]:
        globs = self._strings(key, table, name)
        for key_of_glob, text in globs:
            if text not in self._known_globs and self._room >= 0:
                self._glob(key_of_glob, text)
        return tuple(text for _, text in globs)

    def _glob(self, key: Key, text: str) -> None:
        try:
            parsed = glob.parse(text)
        except glob.GlobError as error:
            self._note(key, f"glob {error}", error.hint)
            return
        self._known_globs.add(text)
        self._room -= parsed.size
        if self._room < 0:
            what = f"the globs up to `{text}` mean too much together"
            self._note(key, what, "use `*` and `**` instead of long lists in braces")

    def _mutations(self, key: Key, table: dict[str, Any]) -> tuple[str, ...]:
        paths = self._strings(key, table, "mutation", or_one=True)
        seen: set[str] = set()
        for key_of_path, path in paths:
            if fault := _path_fault(path):
                self._note(key_of_path, f"patch `{path}` {fault}", _PATCH_PATHS)
                continue
            self.mutations.append((key_of_path, path))
            plain = posixpath.normpath(path)
            if plain in seen:
                self._note(key_of_path, f"`mutation` names `{path}` twice")
            seen.add(plain)
        return tuple(path for _, path in paths)

    def _timeout(self, key: Key, table: dict[str, Any]) -> float | None:
        text = self._string(key, table, "timeout", "such as `10m`")
        if text is None:
            return None
        seconds = terms.seconds(text)
        if seconds is None:
            self._note((*key, "timeout"), f"`timeout` is `{text}`", terms.A_DURATION)
        return seconds

    def _reproduces(self, key: Key, table: dict[str, Any]) -> str | None:
        commit = self._string(key, table, "reproduces")
        key = (*key, "reproduces")
        if commit is None:
            return None
        if not terms.is_commit(commit):
            hint = "its 40 or 64 digits, as `git rev-parse` prints them; a branch or a tag moves"
            self._note(key, f"`reproduces` must be the whole id of a commit, not `{commit}`", hint)
        if "mutation" in table:
            what = "`reproduces` and `mutation` both say what breaks the code"
            self._note(key, what, "keep one of them")
        return commit

    def _at_least(self, key: Key, table: dict[str, Any]) -> int:
        if "at-least" in table and "ran" not in table:
            what = "`at-least` stands without `ran`"
            self._note((*key, "at-least"), what, "`ran` says where the number stands")
        return self._count(key, table, "at-least")

    def _pattern(
        self, key: Key, table: dict[str, Any], name: str, groups: int | None = None
    ) -> str | None:
        """Return a regular expression, which is never empty: that would match anything."""
        pattern = self._string(key, table, name)
        if pattern is None:
            return None
        if not pattern:
            self._note((*key, name), f"`{name}` must not be empty")
        try:
            found = terms.compiled(pattern).groups
            if groups is not None and pattern and found != groups:
                hint = r"such as `(\d+) passed`; a group that is none is written `(?:...)`"
                what = f"`{name}` must have exactly one group, the number, not {found}"
                self._note((*key, name), what, hint)
        except ValueError as error:
            self._note((*key, name), f"`{name}` {error}", terms.A_LITERAL)
        return pattern

    def _env(self, key: Key, table: dict[str, Any]) -> dict[str, str]:
        """Return what is set in the environment, by name."""
        key = (*key, "env")
        env = table.get("env", {})
        if not isinstance(env, dict):
            example = 'such as `{ TZ = "UTC" }`'
            self._note(key, f"`env` must be a table of strings {example}, not {_kind(env)}")
            return {}
        for name, value in env.items():
            if fault := terms.variable_fault(name):
                self._note((*key, name), f"the name of a variable {fault}")
            if not isinstance(value, str):
                self._note((*key, name), f"variable `{name}` must be a string, not {_kind(value)}")
            elif "\0" in value:
                self._note((*key, name), f"variable `{name}` holds a NUL character, which none can")
        return {name: value for name, value in env.items() if isinstance(value, str)}

    def _count(self, key: Key, table: dict[str, Any], name: str) -> int:
        count = table.get(name, 1)
        if isinstance(count, int) and not isinstance(count, bool) and count >= 1:
            return count
        shown = f"`{count}`" if isinstance(count, int | float) else _kind(count)
        self._note((*key, name), f"`{name}` must be a whole number from 1 on, not {shown}")
        return 1

    def _strict(self, key: Key, table: dict[str, Any]) -> bool:
        strict = table.get("strict", False)
        if isinstance(strict, bool):
            return strict
        self._note((*key, "strict"), f"`strict` must be a boolean, not {_kind(strict)}")
        return False

    def _tables(
        self, key: Key, parent: dict[str, Any], none: str
    ) -> Iterator[tuple[Key, dict[str, Any]]]:
        """Give each table of a table of tables; `none` says what it means to have none."""
        tables = parent.get(str(key[-1]), {})
        if not isinstance(tables, dict):
            self._note(key, f"`{key[-1]}` must be a table, not {_kind(tables)}", _A_CHECK)
            return
        if not tables:
            self._note_missing(key, none, _A_CHECK)
        kind = str(key[-1]).removesuffix("s")
        for name, table in tables.items():
            if fault := _name_fault(name):
                self._note((*key, name), f"the name of a {kind} {fault}")
            if isinstance(table, dict):
                yield (*key, name), table
            else:
                what = f"{kind} `{name}` must be a table, not {_kind(table)}"
                self._note((*key, name), what, _A_CHECK)

    def _string(
        self, key: Key, table: dict[str, Any], name: str, example: str | None = None
    ) -> str | None:
        value = table.get(name)
        if value is None or isinstance(value, str):
            return value
        what = f"`{name}` must be a string{(example and f' {example}') or ''}, not {_kind(value)}"
        self._note((*key, name), what)
        return None

    def _strings(
        self,
        key: Key,
        table: dict[str, Any],
        name: str,
        *,
        or_one: bool = False,
        or_none: bool = False,
    ) -> list[tuple[Key, str]]:
        """Return the strings of a list, each with its own key."""
        key = (*key, name)
        value = table.get(name)
        if or_one and isinstance(value, str):
            return [(key, value)]
        if not isinstance(value, list):
            if value is not None:
                wanted = f"a {'string or ' if or_one else ''}list of strings"
                self._note(key, f"`{name}` must be {wanted}, not {_kind(value)}")
            return []
        if not value and not or_none:
            self._note(key, f"`{name}` must not be empty")
        strings: list[tuple[Key, str]] = []
        for number, item in enumerate(value):
            if isinstance(item, str):
                strings.append(((*key, number), item))
            else:
                self._note((*key, number), f"`{name}` must hold only strings, not {_kind(item)}")
        return strings

    def _refuse_keys(
        self, key: Key, table: dict[str, Any], known: Sequence[str], required: Sequence[str] = ()
    ) -> None:
        for name in table:
            if name in known:
                continue
            near = _near(name, known)
            if near:
                self._excused.add((*key, near))
            allowed = ", ".join(f"`{allowed}`" for allowed in known)
            hint = f"did you mean `{near}`?" if near else f"what may stand here: {allowed}"
            self._note((*key, name), f"unknown key `{name}`", hint)
        for name in required:
            if name not in table:
                self._note_missing((*key, name), f"`{name}` is missing")

    def _note_missing(self, key: Key, what: str, hint: str | None = None) -> None:
        """Note that nothing has `key`, unless that is owed to a fault already noted."""
        if not any(key[:length] in self._excused for length in range(1, len(key) + 1)):
            self._note(key, what, hint)

    def _note(self, key: Key, what: str, hint: str | None = None) -> None:
        self._findings.append(_Finding(key, what, hint))


def _near(name: str, known: Sequence[str]) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415 - only a fault needs it

    plain = name.lower().replace("_", "-")
    return next(iter(get_close_matches(plain, known, n=1)), None)


def _name_fault(name: str) -> str | None:
    if not name:
        return "is empty"
    if "/" in name:
        return f"holds a `/`: `{name}`"
    if any(character < " " or "\x7f" <= character <= "\x9f" for character in name):
        return f"holds a control character: `{name}`"
    if name.startswith("-"):
        return f"begins with `-`: `{name}`"
    return None


def _variable_fault(name: str) -> str | None:
    if not name:
        return "is empty"
    if "=" in name:
        return f"holds a `=`: `{name}`"
    if "\0" in name:
        return "holds a NUL character"
    return None


def _path_fault(path: str) -> str | None:
    if not path:
        return "has an empty path"
    if path.startswith("/"):
        return "has an absolute path"
    if ".." in path.split("/"):
        return "has `..` in its path"
    if "\0" in path:
        return "has a NUL character in its path"
    return None


def _kind(value: object) -> str:
    """Return what TOML calls a value."""
    for kind, words in _KINDS.items():
        if isinstance(value, kind):
            return words
    return "a date or time"
