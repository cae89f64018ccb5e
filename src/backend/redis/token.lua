-- Beyond 2^53 a Lua number cannot count; the time in microseconds stays below that until the year 2255. What is
-- no such number is somebody's mistake and counts as none. It is written with '%.0f', in plain digits whatever
-- the server makes of large Lua numbers.
local token = tonumber(call('GET', counter) or 0) or 0
if not (token >= 0 and token < 9007199254740992) then
    token = 0
end
