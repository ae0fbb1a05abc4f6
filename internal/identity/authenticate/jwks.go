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

// jwks is the public keys of an issuer, fetched when they are needed. It is for use by many goroutines.
type jwks struct {
	client *http.Client
	issuer string
	now    func() time.Time
	log    *slog.Logger

	mu       sync.Mutex
	uri      string // "": the issuer's discovery document says
	set      []jose.JSONWebKey
	tried    time.Time     // the last attempt, good or bad
	good     time.Time     // the last good one
	fetching chan struct{} // closed when the attempt that is under way ends; nil: none is
}

const (
	// refresh is how old keys may become while they can be fetched, and patience how long an attempt is not repeated, though
	// tokens come whose key is not among them: anybody may send such.
	refresh  = 20 * time.Minute
	patience = 10 * time.Second
	// maxKeys bounds a set.
	maxKeys = 100
)

// find gives the keys with an ID, or all if the token names none. The last good keys stay in use while others cannot be fetched,
// and who has found what it needs does not wait for them.
func (j *jwks) find(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	j.mu.Lock()
	found, now := j.with(id), j.now()
	mine := j.fetching == nil && (len(found) == 0 || now.Sub(j.good) > refresh) && (j.tried.IsZero() || now.Sub(j.tried) > patience)
	if mine {
		j.tried, j.fetching = now, make(chan struct{})
	}
	ended := j.fetching
	j.mu.Unlock()

	switch {
	case mine:
		// Others wait for it, so it does not end with the call that began it. The client bounds it.
		j.refetch(context.WithoutCancel(ctx), ended)
	case ended == nil || len(found) > 0:
		return found, j.missing()
	default:
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
	}
	j.mu.Lock()
	found = j.with(id)
	j.mu.Unlock()
	return found, j.missing()
}

// missing says that there are no keys at all.
func (j *jwks) missing() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.set) == 0 {
		return fmt.Errorf("%w: the issuer's keys could not be fetched", ErrUnavailable)
	}
	return nil
}

func (j *jwks) refetch(ctx context.Context, ended chan struct{}) {
	set, uri, err := j.fetch(ctx)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil {
		j.set, j.uri, j.good = set, uri, j.now()
	} else {
		j.log.Warn("the keys of a token issuer could not be fetched", "issuer", j.issuer, "err", err)
	}
	j.fetching = nil
	close(ended)
}

func (j *jwks) with(id string) []jose.JSONWebKey {
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

// fetch gives the keys, and where they are.
func (j *jwks) fetch(ctx context.Context) ([]jose.JSONWebKey, string, error) {
	j.mu.Lock()
	uri := j.uri
	j.mu.Unlock()
	if uri == "" {
		var document struct {
			Issuer string `json:"issuer"`
			URI    string `json:"jwks_uri"`
		}
		if err := j.get(ctx, strings.TrimSuffix(j.issuer, "/")+"/.well-known/openid-configuration", &document); err != nil {
			return nil, "", err
		}
		if document.Issuer != j.issuer {
			return nil, "", fmt.Errorf("the discovery document is that of another issuer, %.100q", document.Issuer)
		}
		uri = document.URI
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := j.get(ctx, uri, &set); err != nil {
		return nil, "", err
	}
	if len(set.Keys) > maxKeys {
		return nil, "", fmt.Errorf("%d keys: more than %d", len(set.Keys), maxKeys)
	}
	var list []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) != nil || !k.Valid() || !k.IsPublic() || k.Use != "" && k.Use != "sig" {
			continue // of a kind that we do not know, and so no token of ours is signed with
		}
		list = append(list, k)
	}
	if len(list) == 0 {
		return nil, "", fmt.Errorf("there is no usable key at %s", uri)
	}
	return list, uri, nil
}

// get reads a small document. The client bounds where it may come from, how long that may take and how much it may be.
func (j *jwks) get(ctx context.Context, uri string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil {
		return err
	}
	answer, err := j.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was read, or is given up
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", uri, answer.Status)
	}
	text, err := io.ReadAll(answer.Body) // bounded by the client
	if err != nil {
		return fmt.Errorf("get %s: %w", uri, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("get %s: not the document that was asked for", uri)
	}
	return nil
}
