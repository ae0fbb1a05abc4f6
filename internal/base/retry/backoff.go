package retry

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

// NewBackoff returns a backoff whose NextBackOff returns first, then twice as long with each call,
// up to limit. After Reset it returns first again. If first exceeds limit, all delays are limit.
// The delays are not random, and it is not safe for concurrent use.
func NewBackoff(first, limit time.Duration) *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: min(first, limit), Multiplier: 2, MaxInterval: limit}
}
