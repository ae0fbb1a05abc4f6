package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/retry"
)

// minBackoff is the delay before the first retry. It doubles with each further one, up to
// maxBackoff.
const minBackoff, maxBackoff = 250 * time.Millisecond, time.Minute

// fetchHTTP fetches a module from a web server and verifies its checksum. Connection errors, failed
// reads, 5xx and 429 are retried with backoff, at most f.retries times; other failures are not.
func (f *fetcher) fetchHTTP(ctx context.Context, what Module) ([]byte, error) {
	server, err := url.Parse(what.URL)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: f.transportFor(server.Host)}
	backoff := retry.NewBackoff(minBackoff, maxBackoff)
	for attempt := 0; ; attempt++ {
		b, retryable, err := f.fetchOnce(ctx, client, what.URL)
		if err == nil {
			return verifyChecksum(b, what.Checksum)
		}
		if !retryable || attempt >= f.retries || ctx.Err() != nil {
			return nil, err
		}
		select {
		case <-time.After(backoff.NextBackOff()):
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		}
	}
}

// fetchOnce makes one attempt, and reports whether a failure is worth a retry. It fails for another
// status than 200 and for data that is too big or no module. Connection errors, 5xx, 429 and failed
// reads are worth one.
func (f *fetcher) fetchOnce(
	ctx context.Context, client *http.Client, address string,
) (b []byte, retryable bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, false, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, true, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		retryable = answer.StatusCode >= http.StatusInternalServerError ||
			answer.StatusCode == http.StatusTooManyRequests
		return nil, retryable, fmt.Errorf("server responded %s", answer.Status)
	}
	if b, err = readLimited(answer.Body, f.limit); err != nil {
		return nil, !errors.Is(err, errTooBig), err
	}
	b, err = extractModule(b, f.limit)
	return b, false, err
}

// verifyChecksum returns b if its SHA-256 is checksum, in lower-case hexadecimal, and otherwise an
// error. An empty checksum is not verified.
func verifyChecksum(b []byte, checksum string) ([]byte, error) {
	sum := sha256.Sum256(b)
	if got := hex.EncodeToString(sum[:]); checksum != "" && got != checksum {
		return nil, fmt.Errorf("checksum mismatch: SHA-256 is %s, want %s", got, checksum)
	}
	return b, nil
}
