package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// firstRetry is the time before the second attempt; each further one takes twice as long to come.
const firstRetry = 250 * time.Millisecond

// byHTTP fetches a module from a web server. Answers that may get better are asked for again.
func (f *fetcher) byHTTP(ctx context.Context, what Module) ([]byte, error) {
	client := &http.Client{Transport: f.transport}
	wait := firstRetry
	for attempt := 0; ; attempt++ {
		b, again, err := f.get(ctx, client, what.URL)
		if err == nil {
			return checked(b, what.Checksum)
		}
		if !again || attempt >= f.retries || ctx.Err() != nil {
			return nil, err
		}
		select {
		case <-time.After(wait):
			wait *= 2
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		}
	}
}

// get makes one attempt, and says whether another may do better.
func (f *fetcher) get(ctx context.Context, client *http.Client, url string) (b []byte, again bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, false, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, true, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, answer.StatusCode >= http.StatusInternalServerError || answer.StatusCode == http.StatusTooManyRequests,
			fmt.Errorf("the server answers %s", answer.Status)
	}
	if b, err = bounded(answer.Body, f.limit); err != nil {
		return nil, !errors.Is(err, errTooBig), err
	}
	b, err = unpack(b, f.limit)
	return b, false, err
}

// checked holds a module against its checksum, in hexadecimal; "" is any.
func checked(b []byte, checksum string) ([]byte, error) {
	sum := sha256.Sum256(b)
	if got := hex.EncodeToString(sum[:]); checksum != "" && got != checksum {
		return nil, fmt.Errorf("its SHA-256 is %s, and should be %s", got, checksum)
	}
	return b, nil
}
