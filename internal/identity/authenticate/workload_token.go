package authenticate

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// workloadIssuer is the issuer in workload tokens.
const workloadIssuer = "meshpilot/workload-tokens"

// WorkloadToken authenticates workload tokens, which the control plane's own key signs for
// workloads outside Kubernetes, such as virtual machines.
type WorkloadToken struct {
	verifier tokenVerifier
	// HasWorkload reports whether a service account has a workload. Without one its tokens are
	// rejected, so that removing a workload from the configuration revokes its identity. If nil,
	// all accounts are accepted.
	HasWorkload func(spiffe.Account) bool
}

var _ Authenticator = WorkloadToken{}

// NewWorkloadToken returns a WorkloadToken that accepts tokens signed by key for one of the
// audiences, of all accounts until HasWorkload is set. If now is nil, it is time.Now. It returns an
// error if key cannot be encoded.
func NewWorkloadToken(
	key *ecdsa.PublicKey,
	audiences []string,
	d TrustDomains,
	now func() time.Time,
) (WorkloadToken, error) {
	if now == nil {
		now = time.Now
	}
	id, err := publicKeyID(key)
	if err != nil {
		return WorkloadToken{}, err
	}
	return WorkloadToken{verifier: tokenVerifier{
		issuer:       workloadIssuer,
		audiences:    audiences,
		trustDomains: d,
		now:          now,
		keys:         staticKeys{{Key: key, KeyID: id, Algorithm: string(jose.ES256)}},
	}}, nil
}

// String returns "workload token".
func (WorkloadToken) String() string { return "workload token" }

// Authenticate returns the identity of the service account that the token names. It returns
// ErrNoCredentials without a token and for tokens of other issuers. It returns another error for an
// invalid token or if HasWorkload rejects the account.
func (w WorkloadToken) Authenticate(ctx context.Context, r Request) (Caller, error) {
	a, err := w.verifier.verifyServiceAccount(ctx, r)
	if err != nil {
		return Caller{}, err
	}
	if w.HasWorkload != nil && !w.HasWorkload(a) {
		return Caller{}, fmt.Errorf("no workload has the service account %s/%s", a.Namespace, a.Name)
	}
	id, err := a.ID()
	return Caller{ID: id}, err
}

// SignWorkloadToken returns a token for the workloads of a service account, valid from leeway
// before now until lifetime after it. It returns an error for an invalid account name, a lifetime
// that is not positive, or no audience.
func SignWorkloadToken(
	key *ecdsa.PrivateKey,
	namespace, serviceAccount string,
	audiences []string,
	now time.Time,
	lifetime time.Duration,
) (string, error) {
	subject := "system:serviceaccount:" + namespace + ":" + serviceAccount
	if _, _, err := spiffe.ParseSubject(subject); err != nil {
		return "", err
	}
	if lifetime <= 0 || len(audiences) == 0 {
		return "", errors.New("a token needs a lifetime and an audience")
	}
	id, err := publicKeyID(&key.PublicKey)
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: id}},
		(&jose.SignerOptions{}).WithType("JWT"),
	)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	token, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer:    workloadIssuer,
		Subject:   subject,
		Audience:  audiences,
		IssuedAt:  jwt.NewNumericDate(now),
		NotBefore: jwt.NewNumericDate(now.Add(-leeway)),
		Expiry:    jwt.NewNumericDate(now.Add(lifetime)),
	}).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return token, nil
}

// publicKeyID returns the key ID that tokens have: the first half of the SHA-256 hash of the
// encoded public key, in hexadecimal digits.
func publicKeyID(key *ecdsa.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("encode the public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:16]), nil
}

// staticKeys is a constant keySource.
type staticKeys []jose.JSONWebKey

// findKeys returns the keys with this ID, or all keys if id is empty. The list is nil if there are
// none; the error is always nil.
func (f staticKeys) findKeys(_ context.Context, id string) ([]jose.JSONWebKey, error) {
	var list []jose.JSONWebKey
	for _, k := range f {
		if id == "" || k.KeyID == id {
			list = append(list, k)
		}
	}
	return list, nil
}
