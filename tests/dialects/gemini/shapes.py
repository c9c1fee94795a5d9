"""The names of members in two words, at every level of requests and responses: what `normalize` makes of a document is
what a reader that takes both spellings must make of it."""

from __future__ import annotations

from toolglot.dialects.gemini.names import ProtoMemberNames

_BLOB = ProtoMemberNames("mimeType displayName")
_FILE = ProtoMemberNames("mimeType fileUri displayName")

PART = ProtoMemberNames(
    "thoughtSignature partMetadata",
    inlineData=_BLOB,
    fileData=_FILE,
    functionCall=ProtoMemberNames(
        "willContinue",
        partialArgs=ProtoMemberNames("jsonPath stringValue numberValue boolValue nullValue willContinue"),
    ),
    functionResponse=ProtoMemberNames("willContinue", parts=ProtoMemberNames(inlineData=_BLOB, fileData=_FILE)),
    executableCode=ProtoMemberNames(),
    codeExecutionResult=ProtoMemberNames(),
    toolCall=ProtoMemberNames("toolType"),
    toolResponse=ProtoMemberNames("toolType"),
    videoMetadata=ProtoMemberNames("startOffset endOffset"),
    mediaResolution=ProtoMemberNames("numTokens"),
)

CONTENT = ProtoMemberNames(parts=PART)

TOOL = ProtoMemberNames(
    "googleSearchRetrieval codeExecution",
    functionDeclarations=ProtoMemberNames("parametersJsonSchema responseJsonSchema"),
    googleSearch=ProtoMemberNames("timeRangeFilter excludeDomains blockingConfidence searchTypes"),
    urlContext=ProtoMemberNames(),
    fileSearch=ProtoMemberNames("fileSearchStoreNames topK metadataFilter"),
    computerUse=ProtoMemberNames("excludedPredefinedFunctions"),
    googleMaps=ProtoMemberNames("enableWidget"),
    mcpServers=ProtoMemberNames(streamableHttpTransport=ProtoMemberNames("sseReadTimeout terminateOnClose")),
)

REQUEST = ProtoMemberNames(
    "cachedContent serviceTier continuationToken",
    contents=CONTENT,
    systemInstruction=ProtoMemberNames(parts=PART),
    tools=TOOL,
    toolConfig=ProtoMemberNames(
        "includeServerSideToolInvocations",
        functionCallingConfig=ProtoMemberNames("allowedFunctionNames streamFunctionCallArguments"),
        retrievalConfig=ProtoMemberNames("latLng languageCode"),
    ),
    safetySettings=ProtoMemberNames(),
    generationConfig=ProtoMemberNames(
        "topP topK candidateCount maxOutputTokens stopSequences presencePenalty frequencyPenalty "
        "responseMimeType responseSchema responseJsonSchema responseLogprobs responseModalities "
        "mediaResolution enableEnhancedCivicAnswers audioTimestamp routingConfig modelSelectionConfig speechConfig "
        "imageConfig",
        thinkingConfig=ProtoMemberNames("includeThoughts thinkingBudget thinkingLevel"),
    ),
)

_CANDIDATE = ProtoMemberNames(
    "finishReason finishMessage safetyRatings citationMetadata groundingMetadata groundingAttributions "
    "urlContextMetadata avgLogprobs logprobsResult tokenCount continuationToken",
    content=CONTENT,
)

RESPONSE = ProtoMemberNames(
    "modelVersion responseId createTime",
    candidates=_CANDIDATE,
    promptFeedback=ProtoMemberNames("blockReason blockReasonMessage safetyRatings"),
    usageMetadata=ProtoMemberNames(
        "promptTokenCount cachedContentTokenCount candidatesTokenCount thoughtsTokenCount toolUsePromptTokenCount "
        "totalTokenCount promptTokensDetails cacheTokensDetails candidatesTokensDetails toolUsePromptTokensDetails "
        "trafficType serviceTier"
    ),
)
