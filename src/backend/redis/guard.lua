-- ARGV: id, lease in milliseconds, the term's token or 0 when the contender does not know it.
local id, lease_ms, known = ARGV[1], ARGV[2], tonumber(ARGV[3])
local owner = redis.call('GET', key)
local token = read_token()

if owner ~= id then
    return record(owner, redis.call('PTTL', key), token)
end
-- The counter was lost or went back while the owner's key was not.
if token < known then
    token = write_token(known)
elseif token == 0 then
    token = write_token(now_ms())
end
redis.call('PEXPIRE', key, lease_ms)
return record(id, tonumber(lease_ms), token)
