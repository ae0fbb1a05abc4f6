package gatewayapi

import (
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// expiries finds certificates that expire while no object changes.
type expiries struct {
	now func() time.Time // nil disables all checks
	// at is when the certificate of each Secret expires, for certificates that are valid, and next
	// a time before which none does.
	at   map[config.Key]time.Time
	next time.Time
}

// fault returns why a certificate that is valid until this time is not valid now, or "" if it is.
// It records when the certificate of the Secret expires. Without a clock it returns "". A
// certificate that has expired is not recorded.
func (e *expiries) fault(secret config.Key, until time.Time) string {
	switch {
	case e.now == nil:
		return ""
	case e.now().After(until):
		return "has a certificate that expired on " + until.UTC().Format(time.DateTime)
	}
	if e.at[secret] = until; e.next.IsZero() || until.Before(e.next) {
		e.next = until
	}
	return ""
}

// NextChange returns the earliest time after which a certificate has expired, so that Convert must
// be called, also with an empty batch. It is zero if no certificate is known.
func (c *Converter) NextChange() time.Time { return c.expiries.next }

// expired returns the Secrets whose certificates have expired since the last call, in no particular
// order, and forgets them. Before the first of them expires it returns nil without a search.
func (e *expiries) expired() (secrets []config.Key) {
	if e.now == nil || e.next.IsZero() || !e.now().After(e.next) {
		return nil
	}
	e.next = time.Time{}
	for k, until := range e.at {
		if e.now().After(until) {
			secrets = append(secrets, k)
			delete(e.at, k)
		} else if e.next.IsZero() || until.Before(e.next) {
			e.next = until
		}
	}
	return secrets
}
