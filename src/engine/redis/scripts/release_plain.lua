-- SPDX-License-Identifier: Apache-2.0
--
-- Free the textbook lock if the tenure holds it. Nobody is told.
--
-- KEYS   1 the lock
-- ARGV   1 the owner string
-- Result 1 (released), 0 (the tenure does not hold it)
--
-- Why so: the owner string is never used again, so this cannot touch a later tenure, however late
-- it comes.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
return redis.call('DEL', KEYS[1])
