"""The names of members in two words, at every level of requests and responses: what `normalize` makes of a document is
what a reader that takes both spellings must make of it."""

from __future__ import annotations

from toolglot.dialects.gemini.names import Shape

_BLOB = Shape("mimeType displayName")
_FILE = Shape("mimeType fileUri displayName")

PART = Shape(
    "thoughtSignature partMetadata",
    inlineData=_BLOB,
    fileData=_FILE,
    functionCall=Shape(
        "willContinue",
        partialArgs=Shape("jsonPath stringValue numberValue boolValue nullValue willContinue"),
    ),
    functionResponse=Shape("willContinue", parts=Shape(inlineData=_BLOB, fileData=_FILE)),
    executableCode=Shape(),
    codeExecutionResult=Shape(),
    toolCall=Shape("toolType"),
    toolResponse=Shape("toolType"),
    videoMetadata=Shape("startOffset endOffset"),
    mediaResolution=Shape("numTokens"),
)

CONTENT = Shape(parts=PART)

TOOL = Shape(
    "googleSearchRetrieval codeExecution",
    functionDeclarations=Shape("parametersJsonSchema responseJsonSchema"),
    googleSearch=Shape("timeRangeFilter excludeDomains blockingConfidence searchTypes"),
    urlContext=Shape(),
    fileSearch=Shape("fileSearchStoreNames topK metadataFilter"),
    computerUse=Shape("excludedPredefinedFunctions"),
    googleMaps=Shape("enableWidget"),
    mcpServers=Shape(streamableHttpTransport=Shape("sseReadTimeout terminateOnClose")),
)

REQUEST = Shape(
    "cachedContent serviceTier continuationToken",
    contents=CONTENT,
    systemInstruction=Shape(parts=PART),
    tools=TOOL,
    toolConfig=Shape(
        "includeServerSideToolInvocations",
        functionCallingConfig=Shape("allowedFunctionNames streamFunctionCallArguments"),
        retrievalConfig=Shape("latLng languageCode"),
    ),
    safetySettings=Shape(),
    generationConfig=Shape(
        "topP topK candidateCount maxOutputTokens stopSequences presencePenalty frequencyPenalty "
        "responseMimeType responseSchema responseJsonSchema responseLogprobs responseModalities "
        "mediaResolution enableEnhancedCivicAnswers audioTimestamp routingConfig modelSelectionConfig speechConfig "
        "imageConfig",
        thinkingConfig=Shape("includeThoughts thinkingBudget thinkingLevel"),
    ),
)

_CANDIDATE = Shape(
    "finishReason finishMessage safetyRatings citationMetadata groundingMetadata groundingAttributions "
    "urlContextMetadata avgLogprobs logprobsResult tokenCount continuationToken",
    content=CONTENT,
)

RESPONSE = Shape(
    "modelVersion responseId createTime",
    candidates=_CANDIDATE,
    promptFeedback=Shape("blockReason blockReasonMessage safetyRatings"),
    usageMetadata=Shape(
        "promptTokenCount cachedContentTokenCount candidatesTokenCount thoughtsTokenCount toolUsePromptTokenCount "
        "totalTokenCount promptTokensDetails cacheTokensDetails candidatesTokensDetails toolUsePromptTokensDetails "
        "trafficType serviceTier"
    ),
)
