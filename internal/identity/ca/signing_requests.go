package ca

import (
	"context"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
)

// SigningRequests has certificates signed through Kubernetes CertificateSigningRequests.
type SigningRequests struct {
	Client kubernetes.Interface
	// Timeout bounds one request, until the signer has answered (default 30 s).
	Timeout time.Duration
}

// SigningRequest is the content of one CertificateSigningRequest.
type SigningRequest struct {
	CSR      []byte // in PEM
	Signer   string
	Lifetime time.Duration
	Usages   []certificatesv1.KeyUsage
}

// minLifetime is the minimum lifetime that Kubernetes accepts.
const minLifetime = 10 * time.Minute

// Sign creates a CertificateSigningRequest, approves it and waits for the certificate, at most for
// Timeout (default 30 s). It returns the chain in PEM, or an error if the request is denied, fails
// or is not signed in time, or an API call fails. It deletes the created request in any case.
// Lifetimes below minLifetime are raised to it.
func (s SigningRequests) Sign(ctx context.Context, r SigningRequest) ([]byte, error) {
	timeout := s.Timeout
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	requests := s.Client.CertificatesV1().CertificateSigningRequests()
	seconds := int32(
		max(r.Lifetime, minLifetime) / time.Second,
	) //nolint:gosec // bounded by MAX_WORKLOAD_CERT_TTL, far below 68 years
	created, err := requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-workload-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:           r.CSR,
			SignerName:        r.Signer,
			Usages:            r.Usages,
			ExpirationSeconds: &seconds,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a signing request: %w", err)
	}
	defer s.deleteRequest(ctx, created.Name)
	created.Status.Conditions = append(created.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Approved",
		Message: "the mesh's control plane has authenticated the workload",
	})
	approved, err := requests.UpdateApproval(ctx, created.Name, created, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("approve signing request %q: %w", created.Name, err)
	}
	return s.waitForCertificate(ctx, approved)
}

// waitForCertificate watches the request r until it is finished and returns its certificate. It
// returns an error if the request is denied or fails, ctx ends, or an API call fails. If the watch
// ends early, it reads r again and restarts the watch.
func (s SigningRequests) waitForCertificate(
	ctx context.Context,
	r *certificatesv1.CertificateSigningRequest,
) ([]byte, error) {
	requests := s.Client.CertificatesV1().CertificateSigningRequests()
	for {
		if done, text, err := requestResult(r); done {
			return text, err
		}
		w, err := requests.Watch(ctx, metav1.ListOptions{
			FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, r.Name).String(),
			ResourceVersion: r.ResourceVersion,
		})
		if err != nil {
			return nil, fmt.Errorf("watch signing request %q: %w", r.Name, err)
		}
		for event := range w.ResultChan() {
			next, ok := event.Object.(*certificatesv1.CertificateSigningRequest)
			if !ok {
				break
			}
			if r = next; isFinished(r) {
				break
			}
		}
		w.Stop()
		if isFinished(r) {
			continue
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("timeout: signer %s did not sign %q", r.Spec.SignerName, r.Name)
		}
		// the watch ended early
		if r, err = requests.Get(ctx, r.Name, metav1.GetOptions{}); err != nil {
			return nil, fmt.Errorf("read a signing request: %w", err)
		}
	}
}

// isFinished reports whether the request was signed, denied or failed.
func isFinished(r *certificatesv1.CertificateSigningRequest) bool {
	done, _, _ := requestResult(r)
	return done
}

// requestResult reports whether a request is finished, and returns its certificate in PEM. The
// error is set if it was denied or failed. An approved request without a certificate is not
// finished.
func requestResult(r *certificatesv1.CertificateSigningRequest) (done bool, text []byte, err error) {
	for _, c := range r.Status.Conditions {
		if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
			return true, nil, errors.New("the signer denied the request: " + c.Message)
		}
	}
	return len(r.Status.Certificate) > 0, r.Status.Certificate, nil
}

// deleteRequest deletes a request, even if ctx has ended. Failures are ignored. It takes at most
// five seconds.
func (s SigningRequests) deleteRequest(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := s.Client.CertificatesV1().CertificateSigningRequests().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return // Kubernetes deletes requests after an hour
	}
}
