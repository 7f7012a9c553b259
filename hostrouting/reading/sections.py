"""Whole objects from JSON and back, and the sections of a configuration, whose constructors read
their arguments.
"""

from functools import wraps
from os import PathLike
from typing import Any, TypeVar, cast, get_type_hints

from hostrouting.errors import ConfigError, Fault
from hostrouting.reading.documents import load, parse
from hostrouting.reading.types import READERS, form_of, read_member

T = TypeVar("T")


class _Section(type):
    """The type of a section class: for help() and for completion, it has its own attributes, and
    not what each tuple has.
    """

    def __dir__(cls) -> list[str]:
        names = set(super().__dir__()) - set(dir(tuple))
        return [name for name in names if not name.startswith("_")]


def section(cls: type[T]) -> type[T]:
    """Make a NamedTuple a section of a configuration, whose keys in JSON are its attributes in
    camelCase.

    The constructor and `_replace` read each argument, which is a typed value or a value as in JSON.
    None stands for the default. The class may have a method `faults_between`: see `types`.
    """
    if "_fields" not in vars(cls):  # not those of a class above it
        raise TypeError(
            f"a section must be a NamedTuple; write class {cls.__name__}(NamedTuple), with all "
            "fields in it"
        )
    # The same class, but of another type: that of a class cannot be changed.
    section_class: Any = _Section(cls.__name__, (tuple,), dict(vars(cls)))
    section_class.json_keys = tuple(map(_camel, section_class._fields))  # `Form` reads by these
    for name, key in zip(section_class._fields, section_class.json_keys, strict=True):
        vars(section_class)[name].__doc__ = f"{key} in JSON"
    plain_new = section_class.__new__
    plain_new.__annotations__ = get_type_hints(cls)  # for help(): without the rules in `Annotated`

    @wraps(plain_new)  # since Python 3.13, `inspect` looks for the arguments there
    def new_section(subclass: Any, *values: Any, **settings: Any) -> Any:
        # The arguments in their order, with the defaults of those that are left out.
        given = plain_new(subclass, *values, **settings)
        # `Form.read` makes the value with `tuple.__new__`: this function is not called again.
        return read(subclass, dict(zip(subclass.json_keys, given, strict=True)))

    section_class.__new__ = new_section
    # `_replace` makes its value with `_make`.
    section_class._make = classmethod(lambda subclass, values: subclass(*values))
    form_of(section_class)  # a type that nothing reads is refused here
    return cast("type[T]", section_class)


def _camel(attribute: str) -> str:
    first, *words = attribute.split("_")
    return first + "".join(map(str.capitalize, words))


def read(cls: type[T], document: object, *, key: str | None = None) -> T:
    """The object of this class from a JSON object. Raises ConfigError, whose messages name `key` as
    the key with this value: `read(Agent, whole["agent"], key="agent")`.
    """
    if not isinstance(cls, type):
        raise TypeError(f"read: cls is {cls!r:.80}; it must be a class, and the document second")
    faults: list[Fault] = []
    result: T = read_member(form_of(cls).read, key, document, faults)
    if faults:
        raise ConfigError(faults)
    return result


def read_file(cls: type[T], path: str | PathLike[str]) -> T:
    """The object of this class in a JSON file; `-` is standard input. A ConfigError has all faults,
    and names the file.

    `HostRoutingConfig.load` reads an agent's file with `hostRouting` beside keys that nobody reads.
    """
    return load(path, lambda text: read(cls, parse(text)))


def json_value(value: Any) -> Any:
    """The value as JSON has it, without the members that have their default value: the opposite of
    `read`.
    """
    if type(value) in {bool, int, str}:
        return value
    if type(value) is tuple:
        return [json_value(item) for item in value]
    if type(value) in READERS:  # an address, a network or a prefix
        return str(value)
    form = form_of(type(value))
    members: dict[str, Any] = {}
    for member, (key, default) in zip(value, form.defaults.items(), strict=True):
        if member != default:
            members[key] = json_value(member)
    return members
