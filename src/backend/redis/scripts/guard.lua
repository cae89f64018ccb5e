-- ARGV: id, lease in milliseconds, the token of the term to renew, or 0 for any of this id.
local owner, known = call('GET', key), tonumber(ARGV[3])

-- A larger token is that of a later term: another contender has the same id.
if owner ~= id or known > 0 and token > known then
    return { owner, call('PTTL', key), token }
end
local refused = refusal(known)
if refused then
    return refused
end
-- The counter was lost or went back while the owner's key was not.
if token < known or token == 0 then
    local time = call('TIME')
    token = known > 0 and known or time[1] * 1000000 + time[2]
    call('SET', counter, string.format('%.0f', token))
end
-- Another contender with the same id may have been granted more.
local left_ms = math.max(call('PTTL', key), tonumber(ARGV[2]))
call('PEXPIRE', key, left_ms)
redis.pcall('PEXPIRE', key .. ':since', left_ms)
return token
