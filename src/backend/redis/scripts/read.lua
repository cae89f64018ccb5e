return { call('GET', key), call('PTTL', key), token, call('ZCARD', queue) }
