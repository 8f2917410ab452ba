-- SPDX-License-Identifier: Apache-2.0
--
-- Say who a client is, to people who look at the locks that it holds.
--
-- KEYS   1 the client's key
-- ARGV   1 host, 2 pid, 3 command, 4 how long ago the client began in us, 5 how long this is to be
--        kept in ms
-- Result 1
--
-- Why so: one key for a client and nothing for a lock, so that a lock stays as Redisson knows it.
-- It goes by itself when the client has died. When it began is reckoned by the server's clock, on
-- which everybody who looks agrees. Nothing ever shortens its time.
local now = redis.call('TIME')
local start = string.format('%.0f', tonumber(now[1]) * 1000000 + tonumber(now[2]) - ARGV[4])
redis.call('HSET', KEYS[1], 'host', ARGV[1], 'pid', ARGV[2], 'command', ARGV[3], 'start', start)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[5]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[5])
end
return 1
