"""Chat templates in the forms that checkpoints have, written here for the tests."""

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
THINKING = (
    "{%- for message in messages %}\n    {{- '<|im_start|>' + message.role + '\\n' }}\n"
    "    {{- message.content + '<|im_end|>\\n' }}\n{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n"
    "    {%- if enable_thinking is defined and enable_thinking is false %}\n"
    "        {{- '<think>\\n\\n</think>\\n\\n' }}\n    {%- endif %}\n{%- endif %}"
)
HEADERS = (
    "{{- bos_token }}\n{%- if strftime_now is defined %}\n"
    "    {%- set date_string = strftime_now('%d %b %Y') %}\n{%- endif %}\n"
    "{%- if messages[0]['role'] == 'system' %}\n"
    "    {%- set system_message = messages[0]['content']|trim %}\n"
    "    {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set system_message = '' %}\n"
    "{%- endif %}\n{{- '<|start|>system<|stop|>\\n\\nToday: ' + date_string + '\\n' + "
    "system_message + '<|eot|>' }}\n{%- for message in messages %}\n"
    "    {{- '<|start|>' + message['role'] + '<|stop|>\\n\\n' + message['content'] | trim + "
    "'<|eot|>' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n"
    "    {{- '<|start|>assistant<|stop|>\\n\\n' }}\n{%- endif %}"
)
STRICT = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate') }}{% endif %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"
)
INSTRUCT = (
    "{%- set ns = namespace(count=0) %}{{- bos_token }}{%- for message in messages %}"
    "{%- if message['role'] == 'system' %}{%- continue %}{%- endif %}"
    "{%- set ns.count = ns.count + 1 %}{%- if message['role'] == 'user' %}"
    "{{- '[INST] ' + message['content'] + ' [/INST]' }}{%- else %}"
    "{% generation %}{{- ' ' + message['content'] + eos_token }}{% endgeneration %}"
    "{%- endif %}{%- endfor %}"
)
TEMPLATES = {"chatml": CHATML, "thinking": THINKING, "headers": HEADERS}
TEMPLATES |= {"strict": STRICT, "instruct": INSTRUCT}
