#!/usr/bin/env python3
"""Writes tests/data/chat_templates.json: templates, what they are given, and what jinja2 makes of them, set up as Transformers
sets it up (immutable sandbox, trim_blocks, lstrip_blocks, json.dumps without escapes).

Usage: pip install jinja2; scripts/make_chat_template_goldens.py
"""
import json
import pathlib

from jinja2.sandbox import ImmutableSandboxedEnvironment

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/data/chat_templates.json"

CHAT = [
    {"role": "system", "content": "  Be brief.\n"},
    {"role": "user", "content": "ما هو 7*6؟ {{ 7*6 }} {% raw %}"},
    {"role": "assistant", "content": " 42"},
    {"role": "user", "content": "Und 2^3? \U0001f642 it's \"so\"\n"},
]
USER = [{"role": "user", "content": "Hi"}]
CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

# name, template, messages, variables
CASES = [
    ("chatml", CHATML, CHAT, {}),
    ("chatml without system", CHATML, USER, {}),
    ("chatml without messages", CHATML, [], {}),
    ("loop variables", "{% for m in messages %}{{ loop.index }},{{ loop.index0 }},{{ loop.revindex }},{{ loop.revindex0 }},"
     "{{ loop.first }},{{ loop.last }},{{ loop.length }},{{ loop.depth }},{{ loop.previtem.role if loop.previtem is defined"
     " else '-' }},{{ loop.nextitem.role if loop.nextitem is defined else '-' }};{% endfor %}", CHAT, {}),
    ("loop else and filter", "{% for m in messages if m.role == 'tool' %}{{ m.role }}{% else %}none{% endfor %}|"
     "{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ m.content | trim | length }} {% endfor %}", CHAT, {}),
    ("scope of set in a loop", "{% set x = 1 %}{% for i in range(3) %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}", [], {}),
    ("set in an if leaks", "{% if true %}{% set y = 'in' %}{% endif %}{{ y }}", [], {}),
    ("namespace", "{% set ns = namespace(found=false, n=2) %}{% for m in messages %}{% if m.role == 'assistant' %}"
     "{% set ns.found = true %}{% set ns.n = ns.n * 10 %}{% endif %}{% endfor %}{{ ns.found }} {{ ns.n }} {{ ns.zz is defined }}", CHAT, {}),
    ("set block", "{% set text %}\n  a {{ 1 + 1 }}\n{% endset %}\n[{{ text }}]", [], {}),
    ("whitespace control", "a  \n  {%- if true -%}  \n b \n {%- endif %}\n  c\n   {% if true %}  \nd\n   {% endif %}   \ne {# note #}\n"
     "  {# note #}\nf\n{{- ' g' -}}  \n h {%+ if true %}i{% endif +%}\nj\n\n", [], {}),
    ("crlf", "{% if true %}\r\nx\r\n{% endif %}\r\ny\r\n", [], {}),
    ("raw", "{% raw %}{{ x }} {% if %}{% endraw %}\n|{%- raw -%}  a {%- endraw -%}  b\n  {% raw %}\nc\n  {% endraw %}\nd", [], {}),
    ("strings", r"""{{ 'a\nb\t\\ \'q\' "d"' ~ "\u00e9\x41\q" ~ 'joined' 'together' }}""", [], {}),
    ("operators", "{{ 7 // 2 }},{{ -7 // 2 }},{{ 7 % 3 }},{{ -7 % 3 }},{{ 7 / 2 }},{{ 2 * 3.5 }},{{ 1 - 5 }},{{ 'ab' * 3 }},"
     "{{ 1 + 2 ~ 3 + 4 }},{{ 'a' ~ 1 ~ none ~ true ~ 1.0 }},{{ [1] + [2, 'x'] }},{{ -3 + 5 }},{{ +4 }},{{ 6.0 // 4 }},{{ -7.5 % 2 }}"
     .replace("{{ 1 + 2 ~ 3 + 4 }}", "{{ 1 ~ 2 * 3 }}"), [], {}),
    ("comparison", "{{ 1 < 2 < 3 }},{{ 1 < 2 > 3 }},{{ 'a' < 'b' }},{{ 'b' in 'abc' }},{{ 'x' not in ['x', 'y'] }},{{ 2 in [1, 2] }},"
     "{{ 'role' in messages[0] }},{{ 1 == 1.0 }},{{ 'é' > 'z' }},{{ [1, [2]] == [1, [2]] }},{{ none == none }},{{ not 1 == 2 }},"
     "{{ true == 1 }},{{ '1' == 1 }},{{ 3 >= 3 }},{{ 3 <= 2 }},{{ 1 != 1 }}", USER, {}),
    ("logic", "{{ 1 and 'x' }},{{ 0 and 'x' }},{{ '' or 'y' }},{{ not '' }},{{ 'a' if messages else 'b' }},{{ 'a' if not messages }},"
     "{{ none or [] }},{{ 1 if 0 else 2 if 0 else 3 }}", USER, {}),
    ("tests", "{{ x is defined }},{{ messages is defined and messages is not none }},{{ x is undefined }},{{ none is none }},"
     "{{ 'a' is string }},{{ 1 is number }},{{ true is number }},{{ 1.5 is float }},{{ 1 is integer }},{{ true is boolean }},"
     "{{ messages is iterable }},{{ messages[0] is mapping }},{{ 'a' is mapping }},{{ 3 is odd }},{{ 3 is even }},{{ 9 is divisibleby 3 }},"
     "{{ 1 is in [1, 2] }},{{ 1 is eq 1 }},{{ 1 is ne(2) }},{{ true is true }},{{ 0 is false }},{{ messages is sequence }},{{ 'a' is not string }},{{ 2 is equalto 2 }}",
     USER, {}),
    ("slices", "{{ messages[1:] | length }},{{ messages[:-1] | length }},{{ messages[-1]['role'] }},{{ 'héllo'[1:3] }},{{ 'héllo'[::-1] }},"
     "{{ 'abcdef'[1:5:2] }},{{ 'abc'[5:] }},{{ 'abc'[-2] }},{{ [1, 2, 3][::-2] }},{{ 'abc'[9] is defined }},{{ [1,2,3,4][3:0:-1] }},{{ 'abc'[:] }}", CHAT, {}),
    ("methods", "{{ '  a b '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ ' a '.rstrip() }}|{{ ' a '.lstrip() }}|{{ 'a,b,,c'.split(',') }}|"
     "{{ ' a  b c '.split() }}|{{ 'a b c'.split(' ', 1) }}|{{ 'abc'.startswith('ab') }}|{{ 'abc'.endswith('x') }}|{{ 'hello world'.title() }}|"
     "{{ 'hELLO wORLD'.capitalize() }}|{{ 'aXbX'.replace('X', '--') }}|{{ 'a-a-a'.replace('a', 'b', 2) }}|{{ '-'.join(['a', 'b']) }}|{{ 'abcabc'.find('c') }}|"
     "{{ 'Straße'.upper() if false else 'ÉÀ'.lower() }}|{{ 'a</think>b'.split('</think>')[-1].lstrip('\n') }}|{{ 'ab c'.split(none, 1)[0] }}", [], {}),
    ("dicts", "{% for k, v in {'a': 1, 'b': [2]}.items() %}{{ k }}={{ v }};{% endfor %}{{ {'a': 1}.get('a') }},{{ {'a': 1}.get('z') }},"
     "{{ {'a': 1}.get('z', 5) }},{{ {'x': 'y', 'n': none} }},{{ {'a': 1}.keys() | list }},{{ {'a': 1}.values() | list }},"
     "{% for k in {'q': 1} %}{{ k }}{% endfor %},{{ {'a': 1, 'a': 2}['a'] }},{{ {'a': {'b': 3}}.a.b }},{% for k, v in {'i': 1} | items %}{{ k }}{{ v }}{% endfor %}", [], {}),
    ("filters", "{{ '  x ' | trim }}|{{ 'aB' | upper }}|{{ 'aB' | lower }}|{{ [1, 2] | length }}|{{ zz | default('d') }}|{{ '' | default('d', true) }}|"
     "{{ '' | default('d') }}|{{ [1, 'a', none] | join('-') }}|{{ 'aXa' | replace('a', 'b') }}|{{ [3, 4] | first }}|{{ [3, 4] | last }}|"
     "{{ 'abc' | list }}|{{ 5 | string + '!' }}|{{ '12' | int + 1 }}|{{ 'x' | int(7) }}|{{ 3.9 | int }}|{{ 'abc' | reverse }}|{{ 'hi there' | title }}|"
     "{{ 'hI' | capitalize }}|{{ zz | length }}|{{ 'a' | safe }}|{{ ['a', 'b'] | join }}|{{ 'abc' | count }}|{{ '..a.' | trim('.') }}", [], {}),
    ("tojson", "{{ messages | tojson }}|{{ {'a': [1, 2.5, none, true, 'é\"\\n</x>\\u0001'], 'e': [], 'd': {}} | tojson(indent=2) }}|{{ 'x' | tojson }}|{{ 1e0 if false else 100.0 | tojson }}", CHAT, {}),
    ("floats", "{{ 0.1 + 0.2 }},{{ 1.0 }},{{ 10000000000000000.0 }},{{ 0.00001 }},{{ 0.0001 }},{{ 123456789.125 }},{{ 1 / 3 }},{{ 9999999999999998.0 }}", [], {}),
    ("containers as text", "{{ ['a', \"it's\", 'q\"', 1, 1.5, none, true, {'k': ['v\\n']}] }}{{ [] }}{{ {} }}", [], {}),
    ("undefined prints nothing", "[{{ nothing }}][{{ messages[0].nothing }}][{% for x in nothing %}x{% endfor %}]{{ 'x' in nothing }}", USER, {}),
    ("variables", "{{ bos_token }}{{ eos_token + '!' }}{{ flag }}{{ tools is none }}{{ 'no' if tools else 'none' }}", USER,
     {"bos_token": "<s>", "eos_token": "</s>", "flag": True}),
    ("unicode spaces", "[{{ x | trim }}][{{ x.strip() }}]", [], {"x": "\u00a0\u3000\x1c a\u200b \u2003\x85"}),
    ("llama 3 style", "{{- bos_token }}\n{%- if messages[0]['role'] == 'system' %}\n    {%- set system_message = messages[0]['content']|trim %}\n"
     "    {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set system_message = \"\" %}\n{%- endif %}\n\n"
     "{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}\n{{- system_message }}\n{{- \"<|eot_id|>\" }}\n"
     "{%- for message in messages %}\n    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}\n"
     "        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}\n"
     "    {%- elif 'tool_calls' in message %}\n        {{- raise_exception(\"no tools\") }}\n    {%- endif %}\n{%- endfor %}\n"
     "{%- if add_generation_prompt %}\n    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n{%- endif %}\n", CHAT, {"bos_token": "<|begin|>"}),
    ("gemma style", "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% else %}{% set loop_messages = messages %}{% endif %}"
     "{% for message in loop_messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}"
     "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}",
     CHAT, {"bos_token": "<bos>"}),
    ("qwen style", "{%- for message in messages %}\n    {%- if (message.role == \"user\") or (message.role == \"system\" and not loop.first) %}\n"
     "        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}\n    {%- elif message.role == \"assistant\" %}\n"
     "        {%- set content = message.content %}\n        {%- if '</think>' in content %}\n            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}\n"
     "        {%- endif %}\n        {{- '<|im_start|>' ~ message.role ~ '\\n' ~ content.strip('\\n') ~ '<|im_end|>\\n' }}\n    {%- endif %}\n{%- endfor %}\n",
     CHAT + [{"role": "assistant", "content": "<think>\nhm\n</think>\n\n8\n"}], {}),
    ("zephyr style", "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}\n"
     "{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n{% endif %}\n"
     "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}", CHAT, {"eos_token": "</s>"}),
]

# Templates that jinja2 refuses while rendering; the words are what must appear in the message.
ERRORS = [
    ("raise", "line\n{% if messages %}{{ raise_exception('roles must ' + 'alternate') }}{% endif %}", USER, {}, "roles must alternate"),
    ("undefined attribute", "{{ nothing.x }}", USER, {}, "'nothing' is undefined"),
    ("undefined sum", "{{ 'a' + nothing }}", USER, {}, None),
    ("wrong sum", "{{ 'a' + 1 }}", USER, {}, None),
    ("division", "{{ 1 // 0 }}", USER, {}, None),
    ("order", "{{ 1 < 'a' }}", USER, {}, None),
    ("loop over a number", "{% for x in 5 %}{% endfor %}", USER, {}, None),
    ("unpack", "{% for a, b in [1, 2] %}{% endfor %}", USER, {}, None),
]


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise RuntimeError(message)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


def render(template, messages, variables, prompt):
    values = {"tools": None, "documents": None, **variables}
    return environment().from_string(template).render(messages=messages, add_generation_prompt=prompt, **values)


def main():
    cases, errors = [], []
    for name, template, messages, variables in CASES:
        cases.append({"name": name, "template": template, "messages": messages, "variables": variables,
                      "without_prompt": render(template, messages, variables, False),
                      "with_prompt": render(template, messages, variables, True)})
    for name, template, messages, variables, words in ERRORS:
        try:
            render(template, messages, variables, False)
        except Exception as e:  # noqa: BLE001 - that jinja2 refuses is the point
            assert words is None or words in str(e), (name, str(e))
            errors.append({"name": name, "template": template, "messages": messages, "variables": variables,
                           "words": words or ""})
        else:
            raise SystemExit(f"{name}: jinja2 renders this")
    OUT.write_text(json.dumps({"cases": cases, "errors": errors}, ensure_ascii=False, indent=1) + "\n")
    print(OUT, len(cases), "cases,", len(errors), "errors")


if __name__ == "__main__":
    main()
