"""Chat templates of many families of models, written from the documented format of each.

None is copied from a model's repository. Each has the conversation of `MESSAGES` in it as the
family's documentation shows a conversation, and the turns that a model writes.
"""

from dataclasses import dataclass

_BEGIN, _END = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
SYSTEM = {"role": "system", "content": "Be brief."}
MESSAGES = [
    {"role": "user", "content": "Who keeps the light?"},
    {"role": "assistant", "content": "The keeper."},
    {"role": "user", "content": "And at night?"},
    {"role": "assistant", "content": "He as well."},
]


@dataclass(frozen=True)
class Family:
    """A family.

    Attributes:
        template: its chat template.
        special: the special tokens in it, those of bos and eos first, which may be empty.
        text: MESSAGES in it, after SYSTEM if it takes one.
        learned: what the model writes of this.
        takes_system: whether a conversation may begin with a message of the system.
    """

    template: str
    special: tuple[str, ...]
    text: str
    learned: tuple[str, ...] = ("The keeper.", "He as well.")
    takes_system: bool = True

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation."""
        return [SYSTEM, *MESSAGES] if self.takes_system else MESSAGES


def _plain(end: str) -> tuple[str, str]:
    return f"The keeper.{end}", f"He as well.{end}"


def _headed(begin: str, middle: str, end: str, last: str = "\n") -> str:
    """A template of turns with a header and an end, and the assistant's header asks."""
    turn = (
        f"{{{{ '{begin}' + message['role'] + '{middle}' + message['content'] + '{end}{last}' }}}}"
    )
    asks = f"{{% if add_generation_prompt %}}{{{{ '{begin}assistant{middle}' }}}}{{% endif %}}"
    return "{% for message in messages %}" + turn + "{% endfor %}" + asks


def _text(begin: str, middle: str, end: str) -> str:
    turns = [SYSTEM, *MESSAGES]
    return "".join(f"{begin}{turn['role']}{middle}{turn['content']}{end}" for turn in turns)


_OF_CHATML = (_text("<|im_start|>", "\n", "<|im_end|>\n"), _plain("<|im_end|>"))
FAMILIES = {
    "chatml": Family(
        _headed("<|im_start|>", r"\n", "<|im_end|>", r"\n"),
        ("", "<|im_end|>", "<|im_start|>"),
        *_OF_CHATML,
    ),
    "qwen-with-marks": Family(
        "{%- if messages[0].role != 'system' %}\n"
        "{{- '<|im_start|>system\\nYou help.<|im_end|>\\n' }}\n{%- endif %}\n"
        "{%- for message in messages %}\n"
        "{{- '<|im_start|>' + message.role + '\\n' }}\n"
        "{%- if message.role == 'assistant' %}\n"
        "{%- generation %}\n{{- message.content + '<|im_end|>' }}\n{%- endgeneration %}\n"
        "{{- '\\n' }}\n"
        "{%- else %}\n{{- message.content + '<|im_end|>\\n' }}\n{%- endif %}\n"
        "{%- endfor %}\n"
        "{%- if add_generation_prompt %}\n{{- '<|im_start|>assistant\\n' }}\n{%- endif %}",
        ("", "<|im_end|>", "<|im_start|>"),
        *_OF_CHATML,
    ),
    "smollm": Family(
        "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}"
        "{{ '<|im_start|>system\nYou help<|im_end|>\n' }}{% endif %}"
        "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
        ("<|im_start|>", "<|im_end|>"),
        *_OF_CHATML,
    ),
    "internlm": Family(
        "{{ bos_token }}" + _headed("<|im_start|>", r"\n", "<|im_end|>", r"\n"),
        ("<s>", "<|im_end|>", "<|im_start|>"),
        "<s>" + _text("<|im_start|>", "\n", "<|im_end|>\n"),
        _plain("<|im_end|>"),
    ),
    "yi": Family(
        "{% for message in messages %}{% if message['role'] == 'system' %}"
        "{{ '<|im_start|>system\n' ~ message['content'] ~ '<|im_end|>\n' }}{% endif %}"
        "{% if message['role'] == 'user' %}"
        "{{ '<|im_start|>user\n' ~ message['content'] ~ '<|im_end|>\n<|im_start|>assistant\n' }}"
        "{% elif message['role'] == 'assistant' %}"
        "{{ message['content'] ~ '<|im_end|>' ~ '\n' }}{% endif %}{% endfor %}",
        ("<|startoftext|>", "<|im_end|>", "<|im_start|>"),
        *_OF_CHATML,
    ),
    "llama-2": Family(
        "{% if messages[0]['role'] == 'system' %}"
        "{% set system = '<<SYS>>\n' + messages[0]['content'] + '\n<</SYS>>\n\n' %}"
        "{% set turns = messages[1:] %}{% else %}{% set system = '' %}{% set turns = messages %}"
        "{% endif %}{% for message in turns %}"
        "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Roles must alternate') }}{% endif %}"
        "{% if message['role'] == 'user' %}"
        "{{ bos_token + '[INST] ' + (system if loop.first else '') + message['content'].strip()"
        " + ' [/INST]' }}"
        "{% else %}{{ ' ' + message['content'].strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
        ("<s>", "</s>"),
        "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nWho keeps the light? [/INST] The keeper. </s>"
        "<s>[INST] And at night? [/INST] He as well. </s>",
        (" The keeper. </s>", " He as well. </s>"),
    ),
    "llama-3": Family(
        "{{ bos_token }}{% for message in messages %}"
        "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'"
        " + message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
        "{% if add_generation_prompt %}"
        "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
        ("<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"),
        "<|begin_of_text|>" + _text("<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>"),
        _plain("<|eot_id|>"),
    ),
    "mistral": Family(
        "{{ bos_token }}{% for message in messages %}"
        "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Roles must alternate user/assistant') }}{% endif %}"
        "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
        "{% else %}{{ message['content'] + eos_token }}{% endif %}{% endfor %}",
        ("<s>", "</s>"),
        "<s>[INST] Who keeps the light? [/INST]The keeper.</s>"
        "[INST] And at night? [/INST]He as well.</s>",
        _plain("</s>"),
        takes_system=False,
    ),
    "gemma": Family(
        "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
        "{{ raise_exception('System role not supported') }}{% endif %}"
        "{% for message in messages %}"
        "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
        "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}",
        ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"),
        "<bos><start_of_turn>user\nWho keeps the light?<end_of_turn>\n"
        "<start_of_turn>model\nThe keeper.<end_of_turn>\n"
        "<start_of_turn>user\nAnd at night?<end_of_turn>\n"
        "<start_of_turn>model\nHe as well.<end_of_turn>\n",
        _plain("<end_of_turn>"),
        takes_system=False,
    ),
    "phi-3": Family(
        _headed("<|", r"|>\n", "<|end|>", r"\n"),
        ("<s>", "<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"),
        _text("<|", "|>\n", "<|end|>\n"),
        _plain("<|end|>"),
    ),
    "zephyr": Family(
        "{% for message in messages %}\n"
        "{{ '<|' + message['role'] + '|>\n' + message['content'] + eos_token }}\n"
        "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' + '\n' }}{% endif %}\n"
        "{% endfor %}",
        ("<s>", "</s>"),
        _text("<|", "|>\n", "</s>\n"),
        _plain("</s>"),
    ),
    "vicuna": Family(
        "{{ bos_token }}{% for message in messages %}"
        "{% if message['role'] == 'system' %}{{ message['content'] + ' ' }}"
        "{% elif message['role'] == 'user' %}{{ 'USER: ' + message['content'] + ' ' }}"
        "{% else %}{{ 'ASSISTANT: ' + message['content'] + eos_token }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}",
        ("<s>", "</s>"),
        "<s>Be brief. USER: Who keeps the light? ASSISTANT: The keeper.</s>"
        "USER: And at night? ASSISTANT: He as well.</s>",
        (" The keeper.</s>", " He as well.</s>"),
    ),
    "alpaca": Family(
        "{% for message in messages %}{% if message['role'] == 'system' %}"
        "{{ message['content'] + '\n\n' }}"
        "{% elif message['role'] == 'user' %}"
        "{{ '### Instruction:\n' + message['content'] + '\n\n' }}"
        "{% else %}{{ '### Response:\n' + message['content'] + eos_token + '\n\n' }}{% endif %}"
        "{% endfor %}{% if add_generation_prompt %}{{ '### Response:\n' }}{% endif %}",
        ("<s>", "</s>"),
        "Be brief.\n\n### Instruction:\nWho keeps the light?\n\n### Response:\nThe keeper.</s>\n\n"
        "### Instruction:\nAnd at night?\n\n### Response:\nHe as well.</s>\n\n",
        _plain("</s>"),
    ),
    "deepseek": Family(
        "{% set ns = namespace(system='') %}{% for message in messages %}"
        "{% if message['role'] == 'system' %}{% set ns.system = message['content'] %}{% endif %}"
        "{% endfor %}{{ bos_token }}{{ ns.system }}{% for message in messages %}"
        "{% if message['role'] == 'user' %}{{ '<｜User｜>' + message['content'] }}"
        "{% elif message['role'] == 'assistant' %}"
        "{{ '<｜Assistant｜>' + message['content'] + '<｜end▁of▁sentence｜>' }}{% endif %}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}",
        (_BEGIN, _END, "<｜User｜>", "<｜Assistant｜>"),
        f"{_BEGIN}Be brief.<｜User｜>Who keeps the light?<｜Assistant｜>The keeper.{_END}"
        f"<｜User｜>And at night?<｜Assistant｜>He as well.{_END}",
        _plain("<｜end▁of▁sentence｜>"),
    ),
    "command-r": Family(
        "{{ bos_token }}{% for message in messages %}"
        "{% set name = {'system': 'SYSTEM', 'user': 'USER', 'assistant': 'CHATBOT'} %}"
        "{{ '<|START_OF_TURN_TOKEN|><|' + name[message['role']] + '_TOKEN|>'"
        " + message['content'].strip() + '<|END_OF_TURN_TOKEN|>' }}{% endfor %}"
        "{% if add_generation_prompt %}"
        "{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}",
        (
            "<BOS_TOKEN>",
            "<|END_OF_TURN_TOKEN|>",
            "<|START_OF_TURN_TOKEN|>",
            "<|SYSTEM_TOKEN|>",
            "<|USER_TOKEN|>",
            "<|CHATBOT_TOKEN|>",
        ),
        "<BOS_TOKEN><|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>Be brief.<|END_OF_TURN_TOKEN|>"
        "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Who keeps the light?<|END_OF_TURN_TOKEN|>"
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>The keeper.<|END_OF_TURN_TOKEN|>"
        "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>And at night?<|END_OF_TURN_TOKEN|>"
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>He as well.<|END_OF_TURN_TOKEN|>",
        _plain("<|END_OF_TURN_TOKEN|>"),
    ),
    "tulu": Family(
        "{{ bos_token }}{% for message in messages %}"
        "{% if message['role'] == 'assistant' %}{{ '<|assistant|>\n' }}"
        "{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}"
        "{% if not loop.last %}{{ '\n' }}{% endif %}"
        "{% else %}{{ '<|' + message['role'] + '|>\n' + message['content'] + '\n' }}{% endif %}"
        "{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
        "{% endfor %}",
        ("<|endoftext|>", "<|endoftext|>"),
        "<|endoftext|><|system|>\nBe brief.\n<|user|>\nWho keeps the light?\n"
        "<|assistant|>\nThe keeper.<|endoftext|>\n<|user|>\nAnd at night?\n"
        "<|assistant|>\nHe as well.<|endoftext|>",
        _plain("<|endoftext|>"),
    ),
    "falcon": Family(
        "{% for message in messages %}{% if not loop.first %}{{ '\n' }}{% endif %}"
        "{{ {'system': 'System', 'user': 'User', 'assistant': 'Falcon'}[message['role']] + ': '"
        " + message['content'].replace('\r\n', '\n') }}"
        "{{ eos_token if message['role'] == 'assistant' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '\nFalcon:' }}{% endif %}",
        ("", "<|endoftext|>"),
        "System: Be brief.\nUser: Who keeps the light?\nFalcon: The keeper.<|endoftext|>\n"
        "User: And at night?\nFalcon: He as well.<|endoftext|>",
        (" The keeper.<|endoftext|>", " He as well.<|endoftext|>"),
    ),
    "granite": Family(
        _headed("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>", r"\n"),
        ("", "<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>"),
        _text("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>\n"),
        _plain("<|end_of_text|>"),
    ),
    "openchat": Family(
        "{{ bos_token }}{% for message in messages %}"
        "{{ 'GPT4 Correct ' + message['role'].title() + ': ' + message['content']"
        " + '<|end_of_turn|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'GPT4 Correct Assistant:' }}{% endif %}",
        ("<s>", "</s>", "<|end_of_turn|>"),
        "<s>GPT4 Correct System: Be brief.<|end_of_turn|>"
        "GPT4 Correct User: Who keeps the light?<|end_of_turn|>"
        "GPT4 Correct Assistant: The keeper.<|end_of_turn|>"
        "GPT4 Correct User: And at night?<|end_of_turn|>"
        "GPT4 Correct Assistant: He as well.<|end_of_turn|>",
        (" The keeper.<|end_of_turn|>", " He as well.<|end_of_turn|>"),
    ),
}


def strip_thinking(begin: str, end: str) -> str:
    """A template that leaves out the thinking of earlier turns, as reasoning models have it.

    Args:
        begin: what stands before the content of the assistant's turns, such as a mark.
        end: what stands behind it.
    """
    return (
        "{% for message in messages %}{% set content = message['content'] %}"
        "{% if message['role'] == 'assistant' and not loop.last %}"
        "{% set content = content.split('</think>')[-1].lstrip('\n') %}{% endif %}"
        "{{ '<|im_start|>' + message['role'] + '\n' }}"
        "{% if message['role'] == 'assistant' %}"
        f"{begin}{{{{ content + '<|im_end|>' }}}}{end}"
        "{% else %}{{ content + '<|im_end|>' }}{% endif %}"
        "{{ '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
