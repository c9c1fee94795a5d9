"""The names of members in two words, at every level of requests and responses: what `normalize` makes of a document is
what a reader that takes both spellings must make of it."""

from __future__ import annotations

from toolglot.dialects.gemini.names import MemberNames

_BLOB = MemberNames("mimeType displayName")
_FILE = MemberNames("mimeType fileUri displayName")

PART = MemberNames(
    "thoughtSignature partMetadata",
    inlineData=_BLOB,
    fileData=_FILE,
    functionCall=MemberNames(
        "willContinue",
        partialArgs=MemberNames("jsonPath stringValue numberValue boolValue nullValue willContinue"),
    ),
    functionResponse=MemberNames("willContinue", parts=MemberNames(inlineData=_BLOB, fileData=_FILE)),
    executableCode=MemberNames(),
    codeExecutionResult=MemberNames(),
    toolCall=MemberNames("toolType"),
    toolResponse=MemberNames("toolType"),
    videoMetadata=MemberNames("startOffset endOffset"),
    mediaResolution=MemberNames("numTokens"),
)

CONTENT = MemberNames(parts=PART)

TOOL = MemberNames(
    "googleSearchRetrieval codeExecution",
    functionDeclarations=MemberNames("parametersJsonSchema responseJsonSchema"),
    googleSearch=MemberNames("timeRangeFilter excludeDomains blockingConfidence searchTypes"),
    urlContext=MemberNames(),
    fileSearch=MemberNames("fileSearchStoreNames topK metadataFilter"),
    computerUse=MemberNames("excludedPredefinedFunctions"),
    googleMaps=MemberNames("enableWidget"),
    mcpServers=MemberNames(streamableHttpTransport=MemberNames("sseReadTimeout terminateOnClose")),
)

REQUEST = MemberNames(
    "cachedContent serviceTier continuationToken",
    contents=CONTENT,
    systemInstruction=MemberNames(parts=PART),
    tools=TOOL,
    toolConfig=MemberNames(
        "includeServerSideToolInvocations",
        functionCallingConfig=MemberNames("allowedFunctionNames streamFunctionCallArguments"),
        retrievalConfig=MemberNames("latLng languageCode"),
    ),
    safetySettings=MemberNames(),
    generationConfig=MemberNames(
        "topP topK candidateCount maxOutputTokens stopSequences presencePenalty frequencyPenalty "
        "responseMimeType responseSchema responseJsonSchema responseLogprobs responseModalities "
        "mediaResolution enableEnhancedCivicAnswers audioTimestamp routingConfig modelSelectionConfig speechConfig "
        "imageConfig",
        thinkingConfig=MemberNames("includeThoughts thinkingBudget thinkingLevel"),
    ),
)

_CANDIDATE = MemberNames(
    "finishReason finishMessage safetyRatings citationMetadata groundingMetadata groundingAttributions "
    "urlContextMetadata avgLogprobs logprobsResult tokenCount continuationToken",
    content=CONTENT,
)

RESPONSE = MemberNames(
    "modelVersion responseId createTime",
    candidates=_CANDIDATE,
    promptFeedback=MemberNames("blockReason blockReasonMessage safetyRatings"),
    usageMetadata=MemberNames(
        "promptTokenCount cachedContentTokenCount candidatesTokenCount thoughtsTokenCount toolUsePromptTokenCount "
        "totalTokenCount promptTokensDetails cacheTokensDetails candidatesTokensDetails toolUsePromptTokensDetails "
        "trafficType serviceTier"
    ),
)
