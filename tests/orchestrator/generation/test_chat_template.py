"""Chat templates: prompts of messages, in a sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankmesh.comm.errors import InputError, ModelError
from rankmesh.orchestrator.generation.chat_template import ChatTemplate

pytestmark = pytest.mark.pure

FOLDER = str(Path(__file__).parents[2] / "data" / "decoders" / "llama")
HELLO = [{"role": "user", "content": "hello"}]


def test_the_template_of_a_folder() -> None:
    template = ChatTemplate.beside(FOLDER)
    assert template is not None
    assert "hello" in template.prompt(HELLO)
    assert template.prompt(HELLO) != template.prompt([{"role": "system", "content": "hello"}])


def test_a_template_in_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(
        '{"chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}", '
        '"bos_token": {"content": "<s>"}, "eos_token": "</s>"}'
    )
    template = ChatTemplate.beside(str(tmp_path))
    assert template is not None
    assert template.prompt(HELLO) == "<s>hello</s>"
    assert ChatTemplate.beside(str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('no system messages') }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages[0].content.__init__.__globals__ }}{{ x.y }}",
        "{% for i in range(10000000) %}{% endfor %}",
        "{{ messages[7].content.text }}",
    ],
)
def test_templates_that_refuse_or_reach_out(source: str) -> None:
    with pytest.raises(InputError, match="the chat template refuses the messages"):
        ChatTemplate(source, {}).prompt(HELLO)


def test_no_template() -> None:
    with pytest.raises(ModelError, match="the chat template cannot be read"):
        ChatTemplate("{% for %}", {})
