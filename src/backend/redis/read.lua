local answer = record(redis.call('GET', key), redis.call('PTTL', key), read_token())
answer[4] = redis.call('ZCARD', queue)
return answer
