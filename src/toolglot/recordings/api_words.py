"""Words of the APIs themselves. They are not secret, and no program can read a request without them: a string that is
one of them is kept, whatever a pattern matches."""

from __future__ import annotations

_NAMES = """
    args arguments cache_control call_id candidates choices code completed_at content content_block content_index
    contents createTime created created_at data delta description detail effort encrypted_content error file_data
    file_id fileData fileUri filename finishReason finish_reason format function functionCall functionCallingConfig
    functionDeclarations functionResponse generationConfig id image_url index inlineData input input_audio input_schema
    instructions is_error item item_id items json_schema maxOutputTokens max_completion_tokens max_output_tokens
    max_tokens media_type message messages metadata mimeType mode model modelVersion name object output output_index
    parallel_tool_calls parameters parametersJsonSchema parts partial_json phase previous_response_id properties reason
    reasoning reasoning_content reasoning_details reasoning_effort required response responseId response_format result
    role schema sequence_number signature source status stop stop_reason stop_sequence stop_sequences stream
    stream_options strict summary summary_index system systemInstruction temperature text thinking thinkingConfig
    thought thoughtSignature toolConfig tool_call_id tool_calls tool_choice tool_use_id tools top_p type url usage
    usageMetadata user cache_creation_input_tokens cache_read_input_tokens cachedContentTokenCount cached_tokens
    candidatesTokenCount completion_tokens completion_tokens_details input_tokens input_tokens_details output_tokens
    output_tokens_details promptTokenCount prompt_tokens prompt_tokens_details reasoning_tokens thoughtsTokenCount
    totalTokenCount total_tokens
""".split()  # noqa: SIM905
"""Names of members of requests and answers."""
_VALUES = """
    adaptive any array assistant auto base64 boolean chat.completion chat.completion.chunk completed
    content_block_delta content_block_start content_block_stop custom custom_tool_call custom_tool_call_output developer
    disabled document enabled end_turn ephemeral function_call function_call_output image in_progress incomplete
    input_file input_image input_json_delta input_text integer json_object length list max_tokens message_delta
    message_start message_stop model none null number output_text pause_turn ping reasoning_text redacted_thinking
    refusal signature_delta string summary_text text_delta thinking_delta tool tool_result tool_use
    ANY AUTO MAX_TOKENS NONE OBJECT SAFETY STOP STRING VALIDATED
    response.completed response.content_part.added response.content_part.done response.created response.failed
    response.function_call_arguments.delta response.function_call_arguments.done response.in_progress
    response.incomplete response.output_item.added response.output_item.done response.output_text.delta
    response.output_text.done response.reasoning_summary_part.added response.reasoning_summary_part.done
    response.reasoning_summary_text.delta response.reasoning_summary_text.done response.reasoning_text.delta
    response.reasoning_text.done response.refusal.delta response.refusal.done
""".split()  # noqa: SIM905
"""Values that say what kind something is."""

WORDS = frozenset((*_NAMES, *_VALUES))
TOOL_NAME_MEMBERS = frozenset({"name", "allowedFunctionNames", "allowed_function_names"})
"""Members that name tools: one, or the first of several."""
INDEX_MEMBERS = frozenset({"index", "output_index", "content_index", "summary_index", "sequence_number"})
"""Members whose numbers say which parts of an answer belong together."""
MAX_INDEX_DIGITS = 5
"""Digits of such a number: a longer one is no index, whatever its member is called."""
