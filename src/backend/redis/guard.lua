-- ARGV: id, lease in milliseconds, the term's token or 0 when the contender does not know it.
local owner, known = call('GET', key), tonumber(ARGV[3])

if owner ~= id then
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
call('PEXPIRE', key, ARGV[2])
return token
