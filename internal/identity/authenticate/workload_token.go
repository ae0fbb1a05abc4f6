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

// workloadIssuer is the issuer of workload tokens.
const workloadIssuer = "meshpilot/workload-tokens"

// WorkloadToken believes tokens that were signed with a key of the control plane's own, for workloads where there is no Kubernetes
// to sign any: of a laptop, or of a virtual machine.
type WorkloadToken struct {
	rule tokenRule
	// Known says whether there is a workload with a service account; nil: all are believed. What is taken out of the
	// configuration loses its identity, whatever tokens it has.
	Known func(spiffe.Account) bool
}

var _ Authenticator = WorkloadToken{}

// NewWorkloadToken makes a WorkloadToken that believes what the key has signed, for one of the audiences.
func NewWorkloadToken(key *ecdsa.PublicKey, audiences []string, d TrustDomains, now func() time.Time) (WorkloadToken, error) {
	if now == nil {
		now = time.Now
	}
	id, err := keyID(key)
	if err != nil {
		return WorkloadToken{}, err
	}
	return WorkloadToken{rule: tokenRule{
		issuer: workloadIssuer, audiences: audiences, trustDomains: d, now: now, keys: fixed{{Key: key, KeyID: id, Algorithm: string(jose.ES256)}},
	}}, nil
}

// String names the kind.
func (WorkloadToken) String() string { return "workload token" }

// Authenticate gives the service account that the token was signed for.
func (w WorkloadToken) Authenticate(ctx context.Context, r Request) (Caller, error) {
	a, err := w.rule.caller(ctx, r)
	if err != nil {
		return Caller{}, err
	}
	if w.Known != nil && !w.Known(a) {
		return Caller{}, fmt.Errorf("no workload has the service account %s of %s", a.Name, a.Namespace)
	}
	id, err := a.ID()
	return Caller{ID: id}, err
}

// SignWorkloadToken makes a token for the workloads of a service account.
func SignWorkloadToken(key *ecdsa.PrivateKey, namespace, serviceAccount string, audiences []string, now time.Time, lifetime time.Duration) (string, error) {
	subject := "system:serviceaccount:" + namespace + ":" + serviceAccount
	if _, _, err := spiffe.ParseSubject(subject); err != nil {
		return "", err
	}
	if lifetime <= 0 || len(audiences) == 0 {
		return "", errors.New("a token needs a lifetime and an audience")
	}
	id, err := keyID(&key.PublicKey)
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: id}}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	token, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: workloadIssuer, Subject: subject, Audience: audiences,
		IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now.Add(-leeway)), Expiry: jwt.NewNumericDate(now.Add(lifetime)),
	}).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return token, nil
}

// keyID tells keys apart: the hash of the public key.
func keyID(key *ecdsa.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("a key that cannot be written: %w", err)
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:16]), nil
}

// fixed is keys that never change.
type fixed []jose.JSONWebKey

func (f fixed) find(_ context.Context, id string) ([]jose.JSONWebKey, error) {
	var list []jose.JSONWebKey
	for _, k := range f {
		if id == "" || k.KeyID == id {
			list = append(list, k)
		}
	}
	return list, nil
}
