package authenticate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// OIDC authenticates service account tokens of an external OpenID Connect issuer.
type OIDC struct{ verifier tokenVerifier }

var _ Authenticator = OIDC{}

// OIDCRule selects the accepted tokens: the supported fields of Istio's JWTRule in JSON
// (environment variable JWT_RULE).
type OIDCRule struct {
	Issuer    string   `json:"issuer"`
	Audiences []string `json:"audiences"`
	// JWKSURI is the address of the issuer's keys. If empty, it is taken from the issuer's
	// discovery document.
	JWKSURI string `json:"jwksUri"`
}

// ParseOIDCRule parses the value of JWT_RULE, a JSON object. It returns an error for invalid JSON,
// or if the issuer or the audiences are missing.
func ParseOIDCRule(text string) (OIDCRule, error) {
	var r OIDCRule
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, fmt.Errorf("parse JWT_RULE: %w", err)
	}
	switch {
	case r.Issuer == "":
		return r, errors.New("JWT_RULE has no issuer")
	case len(r.Audiences) == 0:
		return r, errors.New("JWT_RULE has no audiences: any token of the issuer would be accepted")
	}
	return r, nil
}

// NewOIDC returns an OIDC authenticator. Keys are fetched when the first token of the issuer
// arrives. The client must limit response sizes and allowed addresses. A nil log discards
// everything; a nil now is time.Now.
func NewOIDC(r OIDCRule, d TrustDomains, client *http.Client, log *slog.Logger, now func() time.Time) OIDC {
	if now == nil {
		now = time.Now
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return OIDC{tokenVerifier{
		issuer: r.Issuer, audiences: r.Audiences, trustDomains: d, now: now,
		keys: &remoteKeys{client: client, issuer: r.Issuer, uri: r.JWKSURI, now: now, log: log},
	}}
}

// String returns "OIDC token".
func (OIDC) String() string { return "OIDC token" }

// Authenticate returns the identity of the service account that the bearer token names. It returns
// ErrNoCredentials without a token and for tokens of other issuers, and another error for an
// invalid token. The error wraps ErrUnavailable if the issuer's keys are unavailable.
func (o OIDC) Authenticate(ctx context.Context, r Request) (Caller, error) {
	a, err := o.verifier.verifyServiceAccount(ctx, r)
	if err != nil {
		return Caller{}, err
	}
	id, err := a.ID()
	return Caller{ID: id}, err
}
