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

// SigningRequests has CertificateSigningRequests of Kubernetes signed.
type SigningRequests struct {
	Client kubernetes.Interface
	// Patience is how long a signer may take; 0: 30 seconds.
	Patience time.Duration
}

// SigningRequest is one of them.
type SigningRequest struct {
	CSR      []byte // in PEM
	Signer   string
	Lifetime time.Duration
	Usages   []certificatesv1.KeyUsage
}

// minLifetime is the least that Kubernetes lets a certificate last.
const minLifetime = 10 * time.Minute

// Sign creates a request, approves it, waits until it is signed and deletes it. It gives the certificate and what comes with it, in PEM.
func (s SigningRequests) Sign(ctx context.Context, r SigningRequest) ([]byte, error) {
	patience := s.Patience
	if patience == 0 {
		patience = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	requests := s.Client.CertificatesV1().CertificateSigningRequests()
	seconds := int32(max(r.Lifetime, minLifetime) / time.Second) //nolint:gosec // bounded by MAX_WORKLOAD_CERT_TTL, far below 68 years
	made, err := requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-workload-"},
		Spec:       certificatesv1.CertificateSigningRequestSpec{Request: r.CSR, SignerName: r.Signer, Usages: r.Usages, ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a signing request: %w", err)
	}
	defer s.remove(ctx, made.Name)
	made.Status.Conditions = append(made.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Approved",
		Message: "the mesh's control plane has authenticated the workload",
	})
	approved, err := requests.UpdateApproval(ctx, made.Name, made, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("approve signing request %q: %w", made.Name, err)
	}
	return s.await(ctx, approved)
}

// await gives the certificate of a request when it is there.
func (s SigningRequests) await(ctx context.Context, r *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	requests := s.Client.CertificatesV1().CertificateSigningRequests()
	for {
		if done, text, err := outcome(r); done {
			return text, err
		}
		w, err := requests.Watch(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, r.Name).String(), ResourceVersion: r.ResourceVersion,
		})
		if err != nil {
			return nil, fmt.Errorf("watch signing request %q: %w", r.Name, err)
		}
		for event := range w.ResultChan() {
			next, ok := event.Object.(*certificatesv1.CertificateSigningRequest)
			if !ok {
				break
			}
			if r = next; finished(r) {
				break
			}
		}
		w.Stop()
		if finished(r) {
			continue
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s has not signed %q in time", r.Spec.SignerName, r.Name)
		}
		if r, err = requests.Get(ctx, r.Name, metav1.GetOptions{}); err != nil { // the watch has ended
			return nil, fmt.Errorf("read a signing request: %w", err)
		}
	}
}

func finished(r *certificatesv1.CertificateSigningRequest) bool {
	done, _, _ := outcome(r)
	return done
}

// outcome says whether a request has come to its end, and to which.
func outcome(r *certificatesv1.CertificateSigningRequest) (done bool, text []byte, err error) {
	for _, c := range r.Status.Conditions {
		if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
			return true, nil, errors.New("the signer refused: " + c.Message)
		}
	}
	return len(r.Status.Certificate) > 0, r.Status.Certificate, nil
}

// remove deletes a request, whatever became of it and of the call that it was made for.
func (s SigningRequests) remove(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := s.Client.CertificatesV1().CertificateSigningRequests().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return // Kubernetes deletes them by itself after an hour
	}
}
