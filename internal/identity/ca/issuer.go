package ca

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// Request is a request for a workload certificate. The caller was authenticated as ID.
type Request struct {
	ID spiffe.ID
	// CSR is the PEM text of the client, not yet validated.
	CSR []byte
	// Lifetime is the requested lifetime. If 0, the default applies.
	Lifetime time.Duration
	// Signer is the requested signer (metadata CertSigner). If "", the default signer is used. Only
	// a Registration supports others.
	Signer string
}

// Issued is a signed certificate with its chain.
type Issued struct {
	// Chain is the certificate and its intermediates, without the root.
	Chain []*x509.Certificate
	// Roots are the trust anchors of the mesh.
	Roots []*x509.Certificate
}

// Issuer signs workload certificates, itself or through an external signer.
type Issuer interface {
	// Issue returns a signed certificate for r.ID. The error is an *IssueError.
	Issue(ctx context.Context, r Request) (Issued, error)
	// Roots returns the trust anchors of the mesh, and a channel that is closed when they may have
	// changed.
	Roots() ([]*x509.Certificate, <-chan struct{})
}

// Cause is the reason why no certificate was signed, a label of Istio's metric
// citadel_server_csr_sign_err_count.
type Cause string

// The causes that issuers return.
const (
	CauseNotReady Cause = "CA_NOT_READY"
	CauseCSR      Cause = "CSR_ERROR"
	CauseTTL      Cause = "TTL_ERROR"
	CauseSigning  Cause = "CERT_GEN_ERROR"
)

// IssueError is returned if no certificate was signed.
type IssueError struct {
	Cause Cause
	Code  codes.Code
	Err   error
}

// Error returns the message with the wrapped error.
func (r *IssueError) Error() string { return fmt.Sprintf("sign a certificate: %v", r.Err) }

// Unwrap returns the underlying error.
func (r *IssueError) Unwrap() error { return r.Err }

// newIssueError returns an IssueError that wraps err, with the cause for metrics and the gRPC code
// for the client.
func newIssueError(cause Cause, code codes.Code, err error) *IssueError {
	return &IssueError{cause, code, err}
}
