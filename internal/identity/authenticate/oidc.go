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

// OIDC believes tokens of service accounts that an issuer outside has signed (OpenID Connect).
type OIDC struct{ rule tokenRule }

var _ Authenticator = OIDC{}

// OIDCRule says which tokens are believed, as the variable JWT_RULE has it: Istio's JWTRule, in JSON, of which these fields count.
type OIDCRule struct {
	Issuer    string   `json:"issuer"`
	Audiences []string `json:"audiences"`
	// JWKSURI is where the issuer's keys are; "": its discovery document says.
	JWKSURI string `json:"jwksUri"`
}

// ParseOIDCRule reads JWT_RULE.
func ParseOIDCRule(text string) (OIDCRule, error) {
	var r OIDCRule
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, fmt.Errorf("read a JWT rule: %w", err)
	}
	switch {
	case r.Issuer == "":
		return r, errors.New("a JWT rule without an issuer")
	case len(r.Audiences) == 0:
		return r, errors.New("a JWT rule without audiences: any token of the issuer would do, whoever it is for")
	}
	return r, nil
}

// NewOIDC makes an OIDC. It fetches nothing before a token of the issuer comes. The client must bound what it reads, and where from.
func NewOIDC(r OIDCRule, d TrustDomains, client *http.Client, log *slog.Logger, now func() time.Time) OIDC {
	if now == nil {
		now = time.Now
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return OIDC{tokenRule{
		issuer: r.Issuer, audiences: r.Audiences, trustDomains: d, now: now,
		keys: &jwks{client: client, issuer: r.Issuer, uri: r.JWKSURI, now: now, log: log},
	}}
}

// String names the kind.
func (OIDC) String() string { return "OIDC token" }

// Authenticate gives the service account that the token names.
func (o OIDC) Authenticate(ctx context.Context, r Request) (Caller, error) {
	a, err := o.rule.caller(ctx, r)
	if err != nil {
		return Caller{}, err
	}
	id, err := a.ID()
	return Caller{ID: id}, err
}
