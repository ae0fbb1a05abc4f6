package authenticate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// remoteKeys is a keySource that fetches an issuer's keys on demand and caches them. It is safe for
// concurrent use.
type remoteKeys struct {
	client *http.Client
	issuer string
	now    func() time.Time
	log    *slog.Logger

	mu          sync.Mutex
	uri         string // "" until discovered
	set         []jose.JSONWebKey
	lastAttempt time.Time     // last fetch, successful or not
	lastSuccess time.Time     // last successful fetch
	fetching    chan struct{} // closed when the current fetch ends; nil if there is none
}

const (
	// refreshInterval is the age after which keys are fetched again. retryInterval is the minimum
	// time between fetches: any client can send tokens with unknown keys.
	refreshInterval = 20 * time.Minute
	retryInterval   = 10 * time.Second
	// maxKeys is the maximum number of keys of an issuer.
	maxKeys = 100
)

// findKeys returns the cached keys with this ID, or all keys if id is empty. The list is empty,
// without an error, if the issuer has no such key. If there are none or they are older than
// refreshInterval, it first fetches them, unless the last fetch began less than retryInterval ago.
// The error wraps ErrUnavailable if no keys are cached at all, or if ctx ends while it waits for a
// concurrent fetch.
//
// Cached keys stay in use while a fetch fails, and callers that find theirs do not wait for a
// concurrent fetch.
func (j *remoteKeys) findKeys(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	j.mu.Lock()
	found, now := j.keysWithID(id), j.now()
	start := j.fetching == nil && (len(found) == 0 || now.Sub(j.lastSuccess) > refreshInterval) &&
		(j.lastAttempt.IsZero() || now.Sub(j.lastAttempt) > retryInterval)
	if start {
		j.lastAttempt, j.fetching = now, make(chan struct{})
	}
	ended := j.fetching
	j.mu.Unlock()

	switch {
	case start:
		// Concurrent callers wait for this fetch, so it must not end with ctx. The client bounds
		// it.
		j.refreshKeys(context.WithoutCancel(ctx), ended)
	case ended == nil || len(found) > 0:
		return found, j.checkAvailable()
	default:
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
	}
	j.mu.Lock()
	found = j.keysWithID(id)
	j.mu.Unlock()
	return found, j.checkAvailable()
}

// checkAvailable returns an error that wraps ErrUnavailable if no keys are cached at all.
func (j *remoteKeys) checkAvailable() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.set) == 0 {
		return fmt.Errorf("%w: fetching the issuer's keys failed", ErrUnavailable)
	}
	return nil
}

// refreshKeys fetches the keys and, if that succeeds, replaces the cached ones with their address
// and time; a failure is logged. It then closes ended and sets j.fetching to nil. j.mu must not be
// held.
func (j *remoteKeys) refreshKeys(ctx context.Context, ended chan struct{}) {
	set, uri, err := j.fetchKeys(ctx)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil {
		j.set, j.uri, j.lastSuccess = set, uri, j.now()
	} else {
		j.log.Warn(
			"fetching the keys of a token issuer failed; cached keys stay in use",
			"issuer", j.issuer,
			"err", err,
		)
	}
	j.fetching = nil
	close(ended)
}

// keysWithID returns a new list of the cached keys with this ID, nil if there are none. If id is
// empty it returns the list of all cached keys itself. j.mu must be held.
func (j *remoteKeys) keysWithID(id string) []jose.JSONWebKey {
	if id == "" {
		return j.set
	}
	var list []jose.JSONWebKey
	for _, k := range j.set {
		if k.KeyID == id {
			list = append(list, k)
		}
	}
	return list
}

// fetchKeys returns the issuer's signing keys and their URI, which it discovers first if j.uri is
// empty. It skips keys of unsupported types, private keys and keys of other uses. It returns an
// error if no key remains, there are more than maxKeys, or a document is unreachable, invalid or of
// another issuer.
func (j *remoteKeys) fetchKeys(ctx context.Context) ([]jose.JSONWebKey, string, error) {
	j.mu.Lock()
	uri := j.uri
	j.mu.Unlock()
	if uri == "" {
		var document struct {
			Issuer string `json:"issuer"`
			URI    string `json:"jwks_uri"`
		}
		if err := j.getJSON(
			ctx,
			strings.TrimSuffix(j.issuer, "/")+"/.well-known/openid-configuration",
			&document,
		); err != nil {
			return nil, "", err
		}
		if document.Issuer != j.issuer {
			return nil, "", fmt.Errorf("the discovery document names another issuer, %.100q", document.Issuer)
		}
		uri = document.URI
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := j.getJSON(ctx, uri, &set); err != nil {
		return nil, "", err
	}
	if len(set.Keys) > maxKeys {
		return nil, "", fmt.Errorf("the key set has %d keys, more than %d", len(set.Keys), maxKeys)
	}
	var list []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) != nil || !k.Valid() || !k.IsPublic() || k.Use != "" && k.Use != "sig" {
			continue // an unsupported key; none of our tokens uses it
		}
		list = append(list, k)
	}
	if len(list) == 0 {
		return nil, "", fmt.Errorf("no supported key at %s", uri)
	}
	return list, uri, nil
}

// getJSON fetches a JSON document and decodes it into into. Any status but 200 is an error. The
// client limits addresses, time and size. The error has the URI but nothing of the body.
func (j *remoteKeys) getJSON(ctx context.Context, uri string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil {
		return err
	}
	response, err := j.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // nothing to report at this point
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", uri, response.Status)
	}
	text, err := io.ReadAll(response.Body) // bounded by the client
	if err != nil {
		return fmt.Errorf("get %s: %w", uri, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("get %s: invalid JSON", uri)
	}
	return nil
}
