package ca

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// Request asks for a certificate of a workload. Who asks has been authenticated as ID.
type Request struct {
	ID spiffe.ID
	// CSR is in PEM, as it came.
	CSR []byte
	// Lifetime is how long the certificate is to be good; 0: as long as is usual.
	Lifetime time.Duration
	// Signer names who of several is to sign (the metadata CertSigner); "": the usual one. Only a Registration knows others.
	Signer string
}

// Issued is a certificate that was signed.
type Issued struct {
	// Chain is the certificate, and behind it what leads to a root, without the root.
	Chain []*x509.Certificate
	// Roots are what the mesh is to trust.
	Roots []*x509.Certificate
}

// Issuer signs certificates, or has them signed.
type Issuer interface {
	// Issue signs a certificate. The error is a *Refusal.
	Issue(ctx context.Context, r Request) (Issued, error)
	// Roots gives what the mesh is to trust, and a channel that is closed when that has changed.
	Roots() ([]*x509.Certificate, <-chan struct{})
}

// Cause says why no certificate was signed, as Istio's metric citadel_server_csr_sign_err_count has it.
type Cause string

// The causes.
const (
	CauseNotReady Cause = "CA_NOT_READY"
	CauseCSR      Cause = "CSR_ERROR"
	CauseTTL      Cause = "TTL_ERROR"
	CauseSigning  Cause = "CERT_GEN_ERROR"
)

// Refusal is why no certificate was signed.
type Refusal struct {
	Cause Cause
	Code  codes.Code
	Err   error
}

// Error says what was wrong.
func (r *Refusal) Error() string { return fmt.Sprintf("sign a certificate: %v", r.Err) }

// Unwrap gives what was wrong.
func (r *Refusal) Unwrap() error { return r.Err }

func refuse(cause Cause, code codes.Code, err error) *Refusal { return &Refusal{cause, code, err} }
