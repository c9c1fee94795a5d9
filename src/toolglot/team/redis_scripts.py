"""The shared counters in Lua, which Redis runs one at a time: each checks everything, then changes everything.

Times are Redis' own, in microseconds. Keys of one API key have one hash tag:

- `…:rates`: the theoretical arrival times of requests and tokens
- `…:leases`: holds by the end of their leases. What a killed gateway held is free again after that
- `…:holds`: what each hold has reserved: `day month tokens nano tokens nano`
- `…:2026-11-18`, `…:2026-11`: tokens and nano-USD of a window: the ledger's sums (`t`, `n`; `loaded` once they are
  known), what each gateway has settled and not saved yet (`ut:GATEWAY`, `un:GATEWAY`), and what is held (`ht`, `hn`)

A gateway replaces its unsaved amounts together with the sums that it has read after saving, so a settlement that comes
late or twice is corrected a second later. Those of a killed gateway do not count: its spool has them.

Amounts are integers below 2^53, which Lua's numbers hold exactly.
"""

from __future__ import annotations

from hashlib import sha1

INSTANCES = "toolglot:instances"
"""Gateways by the time until which they count as alive."""

_COMMON = """
local prefix = KEYS[1]
local rates, leases, holds = prefix .. 'rates', prefix .. 'leases', prefix .. 'holds'
local MINUTE, MONTH, INSTANCES = 60000000, 3024000, '@INSTANCES'
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local function text(number) return string.format('%.0f', number) end
local function get(key, field) return tonumber(redis.call('HGET', key, field) or '0') end
local function add(key, field, amount)
  if amount ~= 0 then redis.call('HINCRBY', key, field, text(amount)) end
end
local function read_used(window)
  local used, values = {t = 0, n = 0}, redis.call('HGETALL', window)
  for index = 1, #values, 2 do
    local kind, gateway = string.match(values[index], '^u([tn]):(.+)$')
    if gateway then
      local deadline = redis.call('ZSCORE', INSTANCES, gateway)
      if not deadline or tonumber(deadline) <= now then kind = nil end
    else
      kind = string.match(values[index], '^h?([tn])$')
    end
    if kind then used[kind] = used[kind] + tonumber(values[index + 1]) end
  end
  return {used.t, used.n}
end
local function raise(window, tokens, nano)
  if tonumber(tokens) > get(window, 't') then redis.call('HSET', window, 't', tokens) end
  if tonumber(nano) > get(window, 'n') then redis.call('HSET', window, 'n', nano) end
end
local function parse(record)
  local day, month, dt, dn, mt, mn = string.match(record, '(%S+) (%S+) (%d+) (%d+) (%d+) (%d+)')
  return {{prefix .. day, tonumber(dt), tonumber(dn)}, {prefix .. month, tonumber(mt), tonumber(mn)}}
end
local function change_held(record, sign)
  for _, window in ipairs(parse(record)) do
    add(window[1], 'ht', sign * window[2])
    add(window[1], 'hn', sign * window[3])
    redis.call('EXPIRE', window[1], MONTH)
  end
end
local function release(id)
  local record = redis.call('HGET', holds, id)
  redis.call('ZREM', leases, id)
  if record then
    redis.call('HDEL', holds, id)
    change_held(record, -1)
  end
  return record
end
local function expire_leases()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', text(now))) do release(id) end
end
"""

# Names of the day and the month: days since 1970 to a date of the Gregorian calendar, by eras of 400 years.
_DATES = """
local function dates()
  local z = math.floor(now / 86400000000) + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local day, month, year = doy - math.floor((153 * mp + 2) / 5) + 1, mp < 10 and mp + 3 or mp - 9, yoe + era * 400
  if month <= 2 then year = year + 1 end
  return string.format('%04d-%02d-%02d', year, month, day), string.format('%04d-%02d', year, month)
end
"""

_RESERVE = """
local id, tokens, nano, lease = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local rpm, tpm, slots = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local budgets = {{tonumber(ARGV[9]), tonumber(ARGV[10])}, {tonumber(ARGV[11]), tonumber(ARGV[12])}}
local names = {dates()}
local has_budget = budgets[1][1] or budgets[1][2] or budgets[2][1] or budgets[2][2]
if ARGV[13] == names[1] then
  for index = 1, 2 do
    local window = prefix .. names[index]
    raise(window, ARGV[12 + 2 * index], ARGV[13 + 2 * index])
    redis.call('HSET', window, 'loaded', 1)
  end
end
if has_budget then
  for _, name in ipairs(names) do
    if redis.call('HEXISTS', prefix .. name, 'loaded') == 0 then return {'load', names[1]} end
  end
end
expire_leases()
if slots and redis.call('ZCARD', leases) >= slots then return {'concurrent_requests', text(now), '1000000', ''} end
local arrivals, minute_tokens = {}, 0
if rpm then
  if rpm == 0 then return {'requests_per_minute', text(now), text(MINUTE), ''} end
  arrivals.r = math.max(get(rates, 'r'), now) + MINUTE / rpm
  if arrivals.r - now - MINUTE > 1 then
    return {'requests_per_minute', text(now), text(arrivals.r - now - MINUTE), ''}
  end
end
if tpm then
  if tpm == 0 then return {'tokens_per_minute', text(now), text(MINUTE), ''} end
  minute_tokens = math.min(tokens, tpm)
  arrivals.t = math.max(get(rates, 't'), now) + minute_tokens * MINUTE / tpm
  if arrivals.t - now - MINUTE > 1 then
    return {'tokens_per_minute', text(now), text(arrivals.t - now - MINUTE), ''}
  end
end
local held = {}
for index, name in ipairs(names) do
  local used = has_budget and read_used(prefix .. name)
  for offset, wanted in ipairs({tokens, nano}) do
    local budget, amount = budgets[index][offset], 0
    if budget and wanted > 0 then
      local left = budget - used[offset]
      if left <= 0 then
        local limit = (offset == 1 and 'tokens' or 'nano_usd') .. (index == 1 and '_per_day' or '_per_month')
        return {limit, text(now), '0', name}
      end
      amount = math.min(wanted, left)
    end
    table.insert(held, text(amount))
  end
end
for field, arrival in pairs(arrivals) do redis.call('HSET', rates, field, text(arrival)) end
redis.call('EXPIRE', rates, MONTH)
local record = table.concat({names[1], names[2], held[1], held[2], held[3], held[4]}, ' ')
redis.call('ZADD', leases, text(now + lease), id)
redis.call('HSET', holds, id, record)
redis.call('EXPIRE', leases, MONTH)
redis.call('EXPIRE', holds, MONTH)
change_held(record, 1)
return {'held', text(now), text(minute_tokens), record}
"""

_CHECK = """
local record, tokens, nano = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
for index, window in ipairs(parse(record)) do
  local counted = read_used(window[1])
  for offset, used in ipairs({tokens, nano}) do
    local budget = tonumber(ARGV[3 + 2 * index - 1 + offset])
    if budget and counted[offset] - window[1 + offset] + used >= budget then
      return {(offset == 1 and 'tokens' or 'nano_usd') .. (index == 1 and '_per_day' or '_per_month'), text(now)}
    end
  end
end
return {'ok', text(now)}
"""

# A hold that is gone was settled by this command already, or expired, or lost with Redis' memory: the ledger has what
# was used in each case, and is read within a second or two.
_SETTLE = """
local id, tokens, nano, tpm, minute_tokens = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local gateway = ARGV[7]
local record = release(id)
if not record then return 0 end
for _, window in ipairs(parse(record)) do
  add(window[1], 'ut:' .. gateway, tokens)
  add(window[1], 'un:' .. gateway, nano)
end
if tpm and tpm > 0 then
  redis.call('HSET', rates, 't', text(get(rates, 't') + (tokens - minute_tokens) * MINUTE / tpm))
end
return 1
"""

# A hold that Redis has lost is taken up again.
_RENEW = """
local lease = tonumber(ARGV[2])
for index = 3, #ARGV, 2 do
  redis.call('ZADD', leases, text(now + lease), ARGV[index])
  if redis.call('HSETNX', holds, ARGV[index], ARGV[index + 1]) == 1 then change_held(ARGV[index + 1], 1) end
end
redis.call('EXPIRE', leases, MONTH)
redis.call('EXPIRE', holds, MONTH)
return 1
"""

# What this gateway has read of the ledger, and what it has not saved yet. A ledger's sum only grows.
_REBASE = """
local gateway = ARGV[2]
for index = 3, #ARGV, 5 do
  local window = prefix .. ARGV[index]
  if redis.call('EXISTS', window) == 1 then
    raise(window, ARGV[index + 1], ARGV[index + 2])
    redis.call('HDEL', window, 'ut:' .. gateway, 'un:' .. gateway)
    add(window, 'ut:' .. gateway, tonumber(ARGV[index + 3]))
    add(window, 'un:' .. gateway, tonumber(ARGV[index + 4]))
  end
end
return 1
"""

_SPENT = """
expire_leases()
local found = {}
for index = 2, #ARGV do
  local used = read_used(prefix .. ARGV[index])
  table.insert(found, text(used[1]))
  table.insert(found, text(used[2]))
end
return found
"""

# Gateways that live: the number by which a local share is divided while Redis is away.
_BEAT = """
redis.call('ZADD', prefix, text(now + tonumber(ARGV[2])), ARGV[3])
redis.call('ZREMRANGEBYSCORE', prefix, '-inf', text(now))
return redis.call('ZCARD', prefix)
"""


class Script:
    """A script by its text. Redis knows it by its hash."""

    def __init__(self, *parts: str) -> None:
        self.text = "".join(parts).replace("@INSTANCES", INSTANCES)
        self.hash = sha1(self.text.encode(), usedforsecurity=False).hexdigest()


RESERVE = Script(_COMMON, _DATES, _RESERVE)
CHECK = Script(_COMMON, _CHECK)
SETTLE = Script(_COMMON, _SETTLE)
RENEW = Script(_COMMON, _RENEW)
REBASE = Script(_COMMON, _REBASE)
SPENT = Script(_COMMON, _SPENT)
BEAT = Script(_COMMON, _BEAT)
SCRIPTS = (RESERVE, CHECK, SETTLE, RENEW, REBASE, SPENT, BEAT)
