"""The messages of Warp's multi-agent API as tables, from which `descriptors.py` builds descriptors.

An entry is `number name type`, with `[]` after the type of a repeated field, `{}` around the value type of a map with
string keys, and `@name` for a member of a oneof. A type that is neither scalar nor in these tables is an enum or one of
protobuf's well-known types. `Unknown` is a message whose fields are not known: its content is kept as unknown fields,
like all fields that are newer than these tables.

Presence is explicit everywhere: an empty message has a meaning (`in_progress: {}`).
"""

from __future__ import annotations

WELL_KNOWN = {
    "Struct": "google.protobuf.Struct",
    "Value": "google.protobuf.Value",
    "Timestamp": "google.protobuf.Timestamp",
    "Duration": "google.protobuf.Duration",
    "FieldMask": "google.protobuf.FieldMask",
}

REQUEST = {
    "Request": "1 task_context TaskContext, 2 input Input, 3 settings Settings, 4 metadata Metadata,"
    "5 existing_suggestions Suggestions, 6 mcp_context MCPContext",
    "TaskContext": "1 tasks Task[], 2 active_task_id string",
    "Input": "1 context InputContext, 2 user_query InputUserQuery @type, 3 tool_call_result InputToolCallResult @type,"
    "4 query_with_canned_response Unknown @type, 5 auto_code_diff_query Unknown @type, 6 user_inputs UserInputs @type,"
    "7 resume_conversation Unknown @type, 8 init_project_rules Unknown @type,"
    "9 generate_passive_suggestions Unknown @type, 10 create_new_project CreateNewProject @type,"
    "11 clone_repository CloneRepository @type, 12 code_review Unknown @type,"
    "13 summarize_conversation SummarizeConversation @type, 14 create_environment CreateEnvironment @type,"
    "15 fetch_review_comments FetchReviewComments @type, 16 start_from_ambient_run_prompt Unknown @type,"
    "17 invoke_skill Unknown @type",
    "CreateNewProject": "1 query string",
    "CloneRepository": "1 url string",
    "SummarizeConversation": "1 prompt string",
    "CreateEnvironment": "1 repo_paths string[]",
    "FetchReviewComments": "1 repo_path string",
    "UserInputs": "1 inputs UserInput[]",
    "UserInput": "1 user_query InputUserQuery @input, 2 tool_call_result InputToolCallResult @input,"
    "3 cli_agent_user_query Unknown @input, 4 messages_received_from_agents Unknown @input,"
    "5 events_from_agents Unknown @input, 6 passive_suggestion_result Unknown @input,"
    "7 orchestration_config_update Unknown @input",
    "InputUserQuery": "1 query string, 2 referenced_attachments {Attachment}, 3 mode UserQueryMode,"
    "4 intended_agent AgentType",
    "UserQueryMode": "1 plan Unknown @type, 2 orchestrate Unknown @type",
    "InputToolCallResult": "1 tool_call_id string, 2 run_shell_command RunShellCommandResult @result,"
    "3 read_files ReadFilesResult @result, 4 search_codebase SearchCodebaseResult @result,"
    "5 apply_file_diffs ApplyFileDiffsResult @result, 6 suggest_plan SuggestPlanResult @result,"
    "7 suggest_create_plan SuggestCreatePlanResult @result, 8 grep GrepResult @result,"
    "9 file_glob FileGlobResult @result, 11 read_mcp_resource ReadMCPResourceResult @result,"
    "12 call_mcp_tool CallMCPToolResult @result, 13 write_to_long_running_shell_command Unknown @result,"
    "14 suggest_new_conversation Unknown @result, 15 file_glob_v2 FileGlobV2Result @result,"
    "16 suggest_prompt Unknown @result, 17 open_code_review Unknown @result, 18 init_project Unknown @result,"
    "19 read_documents Unknown @result, 20 edit_documents Unknown @result, 21 create_documents Unknown @result,"
    "22 read_shell_command_output Unknown @result, 23 use_computer Unknown @result,"
    "24 insert_review_comments Unknown @result, 25 request_computer_use Unknown @result, 26 read_skill Unknown @result,"
    "27 fetch_conversation Unknown @result, 28 start_agent Unknown @result, 29 send_message_to_agent Unknown @result,"
    "30 transfer_shell_command_control_to_user Unknown @result, 31 ask_user_question Unknown @result,"
    "32 start_agent_v2 Unknown @result, 33 upload_file_artifact Unknown @result, 34 run_agents_result Unknown @result",
    "Settings": "1 model_config ModelConfig, 2 rules_enabled bool, 3 web_context_retrieval_enabled bool,"
    "4 supports_parallel_tool_calls bool, 5 use_anthropic_text_editor_tools bool, 6 planning_enabled bool,"
    "7 warp_drive_context_enabled bool, 8 supports_create_files bool, 9 supported_tools ToolType[],"
    "10 supports_long_running_commands bool, 11 should_preserve_file_content_in_history bool,"
    "12 supports_todos_ui bool, 13 supports_linked_code_blocks bool, 14 supports_started_child_task_message bool,"
    "15 supports_suggest_prompt bool, 16 supports_read_image_files bool, 17 supports_reasoning_message bool,"
    "18 api_keys ApiKeys, 19 autonomy_level AutonomyLevel, 20 isolation_level IsolationLevel,"
    "21 web_search_enabled bool, 22 supported_cli_agent_tools ToolType[], 23 supports_v4a_file_diffs bool,"
    "24 supports_summarization_via_message_replacement bool, 25 supports_bundled_skills bool,"
    "26 supports_research_agent bool, 27 supports_orchestration_v2 bool, 28 supports_orchestrate bool",
    "ModelConfig": "1 base string, 2 planning string, 3 coding string, 4 cli_agent string, 5 computer_use_agent string,"
    "6 base_model_context_window_limit uint32",
    "ApiKeys": "1 anthropic string, 2 openai string, 3 google string, 4 open_router string,"
    "5 allow_use_of_warp_credits bool, 6 aws_credentials AwsCredentials",
    "AwsCredentials": "1 access_key string, 2 secret_key string, 3 session_token string, 4 region string",
    "Metadata": "1 conversation_id string, 2 logging {Value}, 3 ambient_agent_task_id string,"
    "4 forked_from_conversation_id string, 5 parent_agent_id string, 6 agent_name string",
    "MCPContext": "1 resources MCPResource[], 2 tools MCPTool[], 3 servers MCPServer[]",
    "MCPResource": "1 uri string, 2 name string, 3 description string, 4 mime_type string",
    "MCPTool": "1 name string, 2 description string, 3 input_schema Struct",
    "MCPServer": "1 name string, 2 description string, 3 resources MCPResource[], 4 tools MCPTool[], 5 id string",
    "Suggestions": "1 rules SuggestedRule[], 2 workflows SuggestedWorkflow[]",
    "SuggestedRule": "1 name string, 2 content string, 3 logging_id string",
    "SuggestedWorkflow": "1 name string, 2 prompt string, 3 logging_id string",
}

CONTEXT = {
    "InputContext": "1 directory Directory, 2 operating_system OperatingSystem, 3 shell Shell,"
    "4 current_time Timestamp, 5 executed_shell_commands ExecutedShellCommand[], 6 selected_text SelectedText[],"
    "7 images Image[], 8 codebases Codebase[], 9 files InputFile[], 10 project_rules ProjectRules[]",
    "Directory": "1 pwd string, 2 home string, 3 pwd_file_symbols_indexed bool",
    "OperatingSystem": "1 platform string, 2 distribution string",
    "Shell": "1 name string, 2 version string",
    "SelectedText": "1 text string",
    "Image": "1 data bytes, 2 mime_type string",
    "Codebase": "1 name string, 2 path string",
    "InputFile": "1 content FileContent",
    "ProjectRules": "1 root_path string, 2 active_rule_files FileContent[], 3 additional_rule_file_paths string[]",
    "Attachment": "1 plain_text string @value, 2 executed_shell_command ExecutedShellCommand @value,"
    "3 running_shell_command Unknown @value, 4 drive_object Unknown @value, 5 diff_hunk Unknown @value,"
    "6 diff_set Unknown @value, 7 document_content Unknown @value, 8 file_path_reference FilePathReference @value",
    "FilePathReference": "1 file_path string",
    "FileContent": "1 file_path string, 2 content string, 3 line_range LineRange",
    "LineRange": "1 start uint32, 2 end uint32",
    "ExecutedShellCommand": "1 command string, 2 output string, 3 exit_code int32, 4 command_id string,"
    "5 started_ts Timestamp, 6 finished_ts Timestamp, 7 is_auto_attached bool",
}

TASK = {
    "Task": "1 id string, 2 description string, 3 dependencies TaskDependencies, 4 status TaskStatus,"
    "5 messages Message[], 6 summary string, 8 server_data string",
    "TaskDependencies": "1 parent_task_id string",
    "TaskStatus": "1 pending Unknown @status, 2 in_progress Unknown @status, 3 blocked Unknown @status,"
    "4 succeeded Unknown @status, 5 failed Unknown @status, 6 aborted Unknown @status",
    "Message": "1 id string, 2 user_query UserQuery @message, 3 agent_output AgentOutput @message,"
    "4 tool_call ToolCall @message, 5 tool_call_result ToolCallResult @message, 6 server_event ServerEvent @message,"
    "7 server_message_data string, 8 citations Citation[], 9 system_query Unknown @message,"
    "10 update_todos UpdateTodos @message, 11 task_id string, 13 request_id string, 14 timestamp Timestamp,"
    "15 agent_reasoning AgentReasoning @message, 16 summarization Summarization @message,"
    "17 code_review Unknown @message, 18 update_review_comments Unknown @message, 19 web_search WebSearch @message,"
    "20 web_fetch WebFetch @message, 21 debug_output DebugOutput @message, 22 artifact_event Unknown @message,"
    "23 invoke_skill Unknown @message, 24 messages_received_from_agents Unknown @message,"
    "25 model_used ModelUsed @message, 26 events_from_agents Unknown @message",
    "Citation": "1 document_id string, 2 document_type DocumentType",
    "UserQuery": "1 query string, 2 context InputContext, 3 referenced_attachments {Attachment}, 4 mode UserQueryMode,"
    "5 intended_agent AgentType",
    "AgentOutput": "1 text string, 2 reasoning string",
    "AgentReasoning": "1 reasoning string, 2 finished_duration Duration",
    "ServerEvent": "1 payload string",
    "Summarization": "1 conversation_summary ConversationSummary @summary, 2 finished_duration Duration,"
    "3 tool_call_result_summary Unknown @summary",
    "ConversationSummary": "1 summary string, 2 token_count int32",
    "UpdateTodos": "1 create_todo_list CreateTodoList @operation, 2 update_pending_todos UpdatePendingTodos @operation,"
    "3 mark_todos_completed MarkTodosCompleted @operation",
    "CreateTodoList": "1 initial_todos TodoItem[]",
    "UpdatePendingTodos": "1 updated_pending_todos TodoItem[]",
    "MarkTodosCompleted": "1 todo_ids string[]",
    "TodoItem": "1 id string, 2 title string, 3 description string",
    "WebSearch": "1 status WebSearchStatus",
    "WebSearchStatus": "1 searching Searching @type, 2 success Searched @type, 3 error Unknown @type",
    "Searching": "1 query string",
    "Searched": "1 query string, 2 pages WebPage[]",
    "WebFetch": "1 status WebFetchStatus",
    "WebFetchStatus": "1 fetching Fetching @type, 2 success Fetched @type, 3 error Unknown @type",
    "Fetching": "1 urls string[]",
    "Fetched": "1 pages WebPage[]",
    "WebPage": "1 url string, 2 title string, 3 success bool",
    "DebugOutput": "1 text string",
    "ModelUsed": "1 model_id string, 2 model_display_name string, 3 is_fallback bool",
}

TOOLS = {
    "ToolCall": "1 tool_call_id string, 2 run_shell_command RunShellCommand @tool,"
    "3 search_codebase SearchCodebase @tool, 4 server ServerTool @tool, 5 read_files ReadFiles @tool,"
    "6 apply_file_diffs ApplyFileDiffs @tool,"
    "7 suggest_plan SuggestPlan @tool, 8 suggest_create_plan Unknown @tool, 9 grep Grep @tool,"
    "10 file_glob FileGlob @tool, 11 read_mcp_resource ReadMCPResource @tool, 12 call_mcp_tool CallMCPTool @tool,"
    "13 write_to_long_running_shell_command WriteToLongRunningShellCommand @tool,"
    "14 suggest_new_conversation SuggestNewConversation @tool, 15 file_glob_v2 FileGlobV2 @tool,"
    "16 suggest_prompt Unknown @tool, 17 open_code_review Unknown @tool, 18 init_project Unknown @tool,"
    "19 subagent Subagent @tool, 20 read_documents Unknown @tool, 21 edit_documents Unknown @tool,"
    "22 create_documents Unknown @tool, 23 read_shell_command_output Unknown @tool, 24 use_computer Unknown @tool,"
    "25 insert_review_comments Unknown @tool, 26 read_skill Unknown @tool, 27 request_computer_use Unknown @tool,"
    "28 fetch_conversation FetchConversation @tool, 29 start_agent Unknown @tool,"
    "30 send_message_to_agent Unknown @tool, 31 transfer_shell_command_control_to_user TransferControl @tool,"
    "32 ask_user_question Unknown @tool,"
    "33 start_agent_v2 Unknown @tool, 34 upload_file_artifact Unknown @tool, 35 run_agents Unknown @tool",
    "RunShellCommand": "1 command string, 2 is_read_only bool, 3 uses_pager bool, 4 citations Citation[],"
    "5 is_risky bool, 6 wait_until_complete bool @wait, 7 risk_category RiskCategory",
    "SearchCodebase": "1 query string, 2 path_filters string[], 3 codebase_path string",
    "ServerTool": "1 payload string",
    "ReadFiles": "1 files ReadFile[]",
    "ReadFile": "1 name string, 2 line_ranges LineRange[]",
    "ApplyFileDiffs": "1 summary string, 2 diffs FileDiff[], 3 new_files NewFile[], 4 deleted_files DeletedFile[],"
    "5 v4a_updates FileUpdate[]",
    "FileDiff": "1 file_path string, 2 search string, 3 replace string",
    "NewFile": "1 file_path string, 2 content string",
    "DeletedFile": "1 file_path string",
    "FileUpdate": "1 file_path string, 2 move_to string, 3 hunks Hunk[]",
    "Hunk": "1 change_context string[], 2 pre_context string, 3 old string, 4 new string, 5 post_context string",
    "SuggestPlan": "1 summary string, 2 proposed_tasks Task[]",
    "Grep": "1 queries string[], 2 path string",
    "FileGlob": "1 patterns string[], 2 path string",
    "FileGlobV2": "1 patterns string[], 2 search_dir string, 3 max_matches int32, 4 max_depth int32, 5 min_depth int32",
    "ReadMCPResource": "1 uri string, 2 server_id string",
    "CallMCPTool": "1 name string, 2 args Struct, 3 server_id string",
    "WriteToLongRunningShellCommand": "1 input bytes, 2 mode WriteMode, 3 command_id string",
    "WriteMode": "1 raw Unknown @mode, 2 line Unknown @mode, 3 block Unknown @mode",
    "SuggestNewConversation": "1 message_id string",
    "Subagent": "1 task_id string, 2 payload string",
    "FetchConversation": "1 conversation_id string",
    "TransferControl": "1 reason string",
}

RESULTS = {
    "ToolCallResult": "1 tool_call_id string, 2 run_shell_command RunShellCommandResult @result,"
    "3 search_codebase SearchCodebaseResult @result, 4 server ServerResult @result,"
    "5 read_files ReadFilesResult @result, 6 apply_file_diffs ApplyFileDiffsResult @result,"
    "7 suggest_plan SuggestPlanResult @result, 8 suggest_create_plan SuggestCreatePlanResult @result,"
    "9 grep GrepResult @result, 10 file_glob FileGlobResult @result, 11 context InputContext,"
    "14 cancel Unknown @result, 15 read_mcp_resource ReadMCPResourceResult @result,"
    "16 call_mcp_tool CallMCPToolResult @result, 17 write_to_long_running_shell_command Unknown @result,"
    "18 suggest_new_conversation Unknown @result, 19 file_glob_v2 FileGlobV2Result @result,"
    "20 suggest_prompt Unknown @result, 21 open_code_review Unknown @result, 22 init_project Unknown @result,"
    "23 subagent SubagentResult @result, 24 read_documents Unknown @result, 25 edit_documents Unknown @result,"
    "26 create_documents Unknown @result, 27 read_shell_command_output Unknown @result,"
    "28 use_computer Unknown @result, 29 insert_review_comments Unknown @result, 30 read_skill Unknown @result,"
    "31 request_computer_use_result Unknown @result, 32 fetch_conversation Unknown @result,"
    "33 start_agent Unknown @result, 34 send_message_to_agent Unknown @result,"
    "35 transfer_shell_command_control_to_user Unknown @result",
    "ServerResult": "1 serialized_result string",
    "SubagentResult": "1 payload string",
    "Failure": "1 message string",
    "CallMCPToolResult": "1 success CallMCPToolSuccess @result, 2 error Failure @result",
    "CallMCPToolSuccess": "1 results MCPResult[]",
    "MCPResult": "1 text MCPText @result, 2 image Image @result, 3 resource MCPResourceContent @result",
    "MCPText": "1 text string",
    "MCPResourceContent": "1 uri string, 2 text MCPResourceText @content_type, 3 binary Image @content_type",
    "MCPResourceText": "1 content string, 2 mime_type string",
    "ReadMCPResourceResult": "1 success ReadMCPResourceSuccess @result, 2 error Failure @result",
    "ReadMCPResourceSuccess": "1 contents MCPResourceContent[]",
    "RunShellCommandResult": "1 output string, 2 exit_code int32, 3 command string,"
    "4 long_running_command_snapshot ShellSnapshot @result, 5 command_finished CommandFinished @result,"
    "6 permission_denied Unknown @result",
    "ShellSnapshot": "1 output string, 2 cursor string, 3 command_id string, 4 is_alt_screen_active bool,"
    "5 is_preempted bool",
    "CommandFinished": "1 output string, 2 exit_code int32, 3 command_id string",
    "ReadFilesResult": "1 text_files_success TextFilesSuccess @result, 2 error Failure @result,"
    "3 any_files_success AnyFilesSuccess @result",
    "TextFilesSuccess": "1 files FileContent[]",
    "AnyFilesSuccess": "1 files AnyFile[]",
    "AnyFile": "5 binary_content BinaryFile @content, 6 text_content FileContent @content",
    "BinaryFile": "1 file_path string, 4 data bytes",
    "SearchCodebaseResult": "1 success TextFilesSuccess @result, 2 error Failure @result",
    "GrepResult": "1 success GrepSuccess @result, 2 error Failure @result",
    "GrepSuccess": "1 matched_files GrepFile[]",
    "GrepFile": "1 file_path string, 2 matched_lines GrepLine[]",
    "GrepLine": "1 line_number uint32",
    "FileGlobResult": "1 success FileGlobSuccess @result, 2 error Failure @result",
    "FileGlobSuccess": "1 matched_files string",
    "FileGlobV2Result": "1 success FileGlobV2Success @result, 2 error Failure @result",
    "FileGlobV2Success": "1 matched_files GlobFile[], 2 warnings string",
    "GlobFile": "1 file_path string",
    "ApplyFileDiffsResult": "1 success ApplyFileDiffsSuccess @result, 2 error Failure @result",
    "ApplyFileDiffsSuccess": "1 updated_files FileContent[], 2 updated_files_v2 UpdatedFile[],"
    "3 deleted_files DeletedFile[]",
    "UpdatedFile": "1 file FileContent, 2 was_edited_by_user bool",
    "SuggestPlanResult": "1 accepted Unknown @result, 2 user_edited_plan EditedPlan @result",
    "EditedPlan": "1 plan_text string",
    "SuggestCreatePlanResult": "1 accepted bool",
}

RESPONSE = {
    "ResponseEvent": "1 init StreamInit @type, 2 client_actions ClientActions @type, 3 finished StreamFinished @type",
    "StreamInit": "1 conversation_id string, 2 request_id string, 3 run_id string",
    "ClientActions": "1 actions ClientAction[]",
    "ClientAction": "1 create_task CreateTask @action, 2 update_task_status UpdateTaskStatus @action,"
    "3 add_messages_to_task AddMessages @action, 4 update_task_message ChangeMessage @action,"
    "5 append_to_message_content ChangeMessage @action, 6 show_suggestions Suggestions @action,"
    "7 update_task_summary UpdateTaskSummary @action, 8 update_task_description UpdateTaskDescription @action,"
    "9 begin_transaction Unknown @action, 10 commit_transaction Unknown @action,"
    "11 rollback_transaction Unknown @action, 12 start_new_conversation StartNewConversation @action,"
    "13 update_task_server_data UpdateTaskServerData @action, 14 move_messages_to_new_task MoveMessages @action",
    "CreateTask": "1 task Task",
    "UpdateTaskStatus": "1 task_id string, 2 task_status TaskStatus",
    "AddMessages": "1 task_id string, 2 messages Message[]",
    "ChangeMessage": "1 message Message, 2 mask FieldMask, 3 task_id string",
    "UpdateTaskSummary": "1 task_id string, 2 summary string",
    "UpdateTaskDescription": "1 task_id string, 2 description string",
    "StartNewConversation": "1 start_from_message_id string",
    "UpdateTaskServerData": "1 task_id string, 2 server_data string",
    "MoveMessages": "1 source_task_id string, 2 new_task Task, 3 first_message_id string, 4 last_message_id string,"
    "5 expected_message_count uint32, 6 replacement_messages Message[]",
    "StreamFinished": "1 other Unknown @reason, 2 done Unknown @reason, 3 max_token_limit Unknown @reason,"
    "4 quota_limit Unknown @reason, 5 context_window_exceeded Unknown @reason, 6 llm_unavailable Unknown @reason,"
    "7 internal_error Failure @reason, 8 token_usage TokenUsage[], 9 should_refresh_model_config bool,"
    "10 request_cost RequestCost, 11 conversation_usage_metadata ConversationUsage,"
    "12 invalid_api_key InvalidApiKey @reason, 13 pruned_media PrunedMedia",
    "InvalidApiKey": "1 provider LLMProvider, 2 model_name string",
    "TokenUsage": "1 model_id string, 2 total_input uint32, 3 output uint32, 4 input_cache_read uint32,"
    "5 input_cache_write uint32, 6 cost_in_cents float",
    "RequestCost": "1 exact float, 2 platform_credits float",
    "PrunedMedia": "1 pruned_count uint32",
    "ConversationUsage": "1 context_window_usage float, 2 summarized bool, 3 credits_spent float,"
    "4 token_usage ModelTokenUsage[], 5 tool_usage_metadata Unknown, 6 warp_token_usage {ModelTokenUsage},"
    "7 byok_token_usage {ModelTokenUsage}, 8 platform_credits_spent float,"
    "9 custom_endpoint_token_usage {ModelTokenUsage}, 10 total_input_tokens uint32,"
    "11 context_window_segments Unknown[]",
    "ModelTokenUsage": "1 model_id string, 2 total_tokens uint32, 3 token_usage_by_category {uint32}",
}

MESSAGES: dict[str, str] = {"Unknown": "", **REQUEST, **CONTEXT, **TASK, **TOOLS, **RESULTS, **RESPONSE}

ENUMS: dict[str, tuple[str, ...]] = {
    "AgentType": ("UNKNOWN", "PRIMARY", "CLI"),
    "AutonomyLevel": ("SUPERVISED", "UNSUPERVISED"),
    "IsolationLevel": ("NONE", "SANDBOX"),
    "RiskCategory": (
        "UNSPECIFIED",
        "READ_ONLY",
        "TRIVIAL_LOCAL_CHANGE",
        "NONTRIVIAL_LOCAL_CHANGE",
        "EXTERNAL_CHANGE",
        "RISKY",
    ),
    "DocumentType": ("WORKFLOW", "NOTEBOOK", "ENV_VAR", "RULE", "DOCUMENTATION", "WEB_PAGE", "UNKNOWN"),
    "LLMProvider": (
        "UNKNOWN",
        "ANTHROPIC",
        "OPENAI",
        "GOOGLE",
        "XAI",
        "OPENROUTER",
        "AWS_BEDROCK",
        "GEMINI_ENTERPRISE",
    ),
    "ToolType": (
        "RUN_SHELL_COMMAND",
        "SEARCH_CODEBASE",
        "READ_FILES",
        "APPLY_FILE_DIFFS",
        "SUGGEST_PLAN",
        "SUGGEST_CREATE_PLAN",
        "GREP",
        "FILE_GLOB",
        "READ_MCP_RESOURCE",
        "CALL_MCP_TOOL",
        "WRITE_TO_LONG_RUNNING_SHELL_COMMAND",
        "SUGGEST_NEW_CONVERSATION",
        "FILE_GLOB_V2",
        "SUGGEST_PROMPT",
        "OPEN_CODE_REVIEW",
        "INIT_PROJECT",
        "SUBAGENT",
        "READ_DOCUMENTS",
        "EDIT_DOCUMENTS",
        "CREATE_DOCUMENTS",
        "READ_SHELL_COMMAND_OUTPUT",
        "USE_COMPUTER",
        "INSERT_REVIEW_COMMENTS",
        "READ_SKILL",
        "REQUEST_COMPUTER_USE",
        "FETCH_CONVERSATION",
        "START_AGENT",
        "SEND_MESSAGE_TO_AGENT",
        "TRANSFER_SHELL_COMMAND_CONTROL_TO_USER",
    ),
}
"""The names of each enum's values, numbered from 0."""
