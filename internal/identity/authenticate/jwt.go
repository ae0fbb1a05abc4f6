package authenticate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// leeway is how far clocks may be apart.
const leeway = time.Minute

// signatures are the algorithms of tokens. Those with shared keys are not among them, nor is "none".
func signatures() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512, jose.EdDSA,
	}
}

// keys gives the public keys that a token may be signed with, by the ID that it says its key has.
type keys interface {
	find(ctx context.Context, id string) ([]jose.JSONWebKey, error)
}

// tokenRule is what tokens of one issuer must be.
type tokenRule struct {
	issuer       string
	audiences    []string
	keys         keys
	trustDomains TrustDomains
	now          func() time.Time
}

// caller verifies a token of a service account. The error is ErrNoCredentials if it is none of the issuer's: who reads a token
// before its signature is verified may believe nothing else of it.
func (t tokenRule) caller(ctx context.Context, r Request) (spiffe.Account, error) {
	text, err := bearer(r)
	if err != nil {
		return spiffe.Account{}, err
	}
	token, err := jwt.ParseSigned(text, signatures())
	if err != nil {
		return spiffe.Account{}, ErrNoCredentials // tokens of Kubernetes need not be JWTs
	}
	var claims jwt.Claims
	if err := token.UnsafeClaimsWithoutVerification(&claims); err != nil || claims.Issuer != t.issuer {
		return spiffe.Account{}, ErrNoCredentials
	}
	if err := t.verify(ctx, token, &claims); err != nil {
		return spiffe.Account{}, err
	}
	now := t.now()
	switch err := claims.ValidateWithLeeway(jwt.Expected{Issuer: t.issuer, AnyAudience: t.audiences, Time: now}, leeway); {
	case err != nil:
		return spiffe.Account{}, err
	case claims.Expiry == nil:
		return spiffe.Account{}, errors.New("the token has no end")
	case len(t.audiences) == 0:
		return spiffe.Account{}, errors.New("no audience is agreed on")
	}
	namespace, name, err := spiffe.ParseSubject(claims.Subject)
	if err != nil {
		return spiffe.Account{}, err
	}
	return spiffe.Account{TrustDomain: t.trustDomains.own(), Namespace: namespace, Name: name}, nil
}

// verify reads the claims of a token again, those of which the signature is good.
func (t tokenRule) verify(ctx context.Context, token *jwt.JSONWebToken, claims *jwt.Claims) error {
	if len(token.Headers) != 1 {
		return fmt.Errorf("%d signatures, want one", len(token.Headers))
	}
	found, err := t.keys.find(ctx, token.Headers[0].KeyID)
	if err != nil {
		return err
	}
	for _, k := range found {
		if k.Algorithm != "" && k.Algorithm != token.Headers[0].Algorithm {
			continue
		}
		*claims = jwt.Claims{}
		if token.Claims(k.Key, claims) == nil {
			return nil
		}
	}
	*claims = jwt.Claims{}
	return errors.New("the signature is not by a key of the issuer's")
}
