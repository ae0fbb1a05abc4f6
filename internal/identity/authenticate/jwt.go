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

// leeway is the tolerated clock difference.
const leeway = time.Minute

// signatureAlgorithms returns the accepted signature algorithms of tokens: RS, PS and ES with 256,
// 384 and 512 bits, and EdDSA. Symmetric algorithms and "none" are excluded.
func signatureAlgorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.RS256,
		jose.RS384,
		jose.RS512,
		jose.ES256,
		jose.ES384,
		jose.ES512,
		jose.PS256,
		jose.PS384,
		jose.PS512,
		jose.EdDSA,
	}
}

// keySource returns the public keys that may sign tokens. An empty id, from a token without key ID,
// matches all keys.
type keySource interface {
	findKeys(ctx context.Context, id string) ([]jose.JSONWebKey, error)
}

// tokenVerifier verifies the tokens of one issuer.
type tokenVerifier struct {
	issuer       string
	audiences    []string
	keys         keySource
	trustDomains TrustDomains
	now          func() time.Time
}

// verifyServiceAccount verifies the bearer token and returns the service account in its subject,
// with the mesh's trust domain. It returns ErrNoCredentials without a token, or for one that is no
// JWT of this issuer; only the issuer is read before the verification. It returns an error for
// invalid signatures, other audiences or none configured, other subjects, a missing expiry, and
// tokens not valid now. The error wraps ErrUnavailable if the issuer's keys are unavailable.
func (t tokenVerifier) verifyServiceAccount(ctx context.Context, r Request) (spiffe.Account, error) {
	text, err := bearerToken(r)
	if err != nil {
		return spiffe.Account{}, err
	}
	token, err := jwt.ParseSigned(text, signatureAlgorithms())
	if err != nil {
		return spiffe.Account{}, ErrNoCredentials // Kubernetes tokens need not be JWTs
	}
	var claims jwt.Claims
	if err := token.UnsafeClaimsWithoutVerification(&claims); err != nil || claims.Issuer != t.issuer {
		return spiffe.Account{}, ErrNoCredentials
	}
	if err := t.verifySignature(ctx, token, &claims); err != nil {
		return spiffe.Account{}, err
	}
	now := t.now()
	expected := jwt.Expected{Issuer: t.issuer, AnyAudience: t.audiences, Time: now}
	switch err := claims.ValidateWithLeeway(expected, leeway); {
	case err != nil:
		return spiffe.Account{}, err
	case claims.Expiry == nil:
		return spiffe.Account{}, errors.New("the token has no expiry")
	case len(t.audiences) == 0:
		return spiffe.Account{}, errors.New("no audience is configured")
	}
	namespace, name, err := spiffe.ParseSubject(claims.Subject)
	if err != nil {
		return spiffe.Account{}, err
	}
	return spiffe.Account{TrustDomain: t.trustDomains.current(), Namespace: namespace, Name: name}, nil
}

// verifySignature verifies the token's only signature and replaces claims by the verified ones. If
// no key of the issuer verifies it, claims is empty and it returns an error. Keys of another
// algorithm are not tried. An unavailable issuer is the error of findKeys.
func (t tokenVerifier) verifySignature(ctx context.Context, token *jwt.JSONWebToken, claims *jwt.Claims) error {
	if len(token.Headers) != 1 {
		return fmt.Errorf("%d signatures, want one", len(token.Headers))
	}
	found, err := t.keys.findKeys(ctx, token.Headers[0].KeyID)
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
	return errors.New("no key of the issuer verifies the signature")
}
