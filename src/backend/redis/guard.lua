-- ARGV: id, lease in milliseconds, the term's token or 0 when the contender does not know it.
local owner, known = call('GET', key), tonumber(ARGV[3])

if owner ~= id then
    return { owner, call('PTTL', key), token }
end
-- The counter was lost or went back while the owner's key was not.
if token < known then
    count(known)
elseif token == 0 then
    count(now())
end
call('PEXPIRE', key, ARGV[2])
return { id, tonumber(ARGV[2]), token }
