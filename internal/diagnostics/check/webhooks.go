package check

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// webhook is the part of a webhook that is checked.
type webhook struct {
	configuration, name string
	injects             bool
	client              admissionv1.WebhookClientConfig
}

// title returns "CONFIGURATION WEBHOOK", the name of the webhook in findings.
func (w webhook) title() string { return w.configuration + " " + w.name }

// webhooks returns the webhooks of isIstios, mutating ones first: their Service is a control
// plane's, or their configuration has the labels of Istio's charts. If listing fails, it returns
// the error and no webhooks.
func (t *Target) webhooks(ctx context.Context) ([]webhook, error) {
	var list []webhook
	client := t.Client.Kubernetes.AdmissionregistrationV1()
	mutating, err := client.MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, c := range mutating.Items {
		for _, w := range c.Webhooks {
			if isIstios(c.ObjectMeta, w.ClientConfig) {
				list = append(list, webhook{c.Name, w.Name, true, w.ClientConfig})
			}
		}
	}
	validating, err := client.ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, c := range validating.Items {
		for _, w := range c.Webhooks {
			if isIstios(c.ObjectMeta, w.ClientConfig) {
				list = append(list, webhook{c.Name, w.Name, false, w.ClientConfig})
			}
		}
	}
	return list, nil
}

// isIstios reports whether a webhook belongs to a control plane: its Service is called istiod or
// istiod-REVISION, or it has no Service and its configuration has the label app with the value
// istiod or sidecar-injector.
func isIstios(m metav1.ObjectMeta, c admissionv1.WebhookClientConfig) bool {
	if c.Service != nil {
		return c.Service.Name == "istiod" || strings.HasPrefix(c.Service.Name, "istiod-")
	}
	return m.Labels["app"] == "sidecar-injector" || m.Labels["app"] == "istiod"
}

// ownWebhooks returns the webhooks whose Service is in t.Namespace and, if t.Revision is set, is
// the Service of that revision. Webhooks with a URL instead of a Service are included. On an error
// the list is empty.
func (t *Target) ownWebhooks(ctx context.Context) ([]webhook, error) {
	list, err := t.webhooks(ctx)
	return slices.DeleteFunc(list, func(w webhook) bool {
		s := w.client.Service
		return s != nil && (s.Namespace != t.Namespace || t.Revision != "" && s.Name != t.serviceName())
	}), err
}

// caBundlesValid fails if there is no webhook of the control plane, or if a CA bundle is missing,
// malformed or not valid now. It warns of certificates that expire within rootWarning.
func caBundlesValid(ctx context.Context, t *Target) outcome {
	list, err := t.ownWebhooks(ctx)
	if err != nil {
		return requestFailed(err)
	}
	if len(list) == 0 {
		return fail("there is no webhook configuration of the control plane")
	}
	var wrong, soon findings
	for _, w := range list {
		certificates, err := parseCertificates(w.client.CABundle)
		switch {
		case len(w.client.CABundle) == 0:
			wrong.add("%s has no caBundle", w.title())
		case err != nil:
			wrong.add("%s has a caBundle that cannot be read: %v", w.title(), err)
		default:
			t.checkTimes(w.title(), certificates, rootWarning, &wrong, &soon)
		}
	}
	return conclude(wrong, soon, "%d webhooks", len(list))
}

// webhookPort is the port of istiod's webhooks.
const webhookPort = 15017

// webhookCertificate fails if a TLS handshake with the webhook port of a replica fails. As the API
// server would, it verifies the certificate against the CA bundle and the name of the Service. Each
// CA bundle is tried once. It is skipped if no webhook calls a Service.
func webhookCertificate(ctx context.Context, t *Target) outcome {
	list, err := t.ownWebhooks(ctx)
	if err != nil {
		return requestFailed(err)
	}
	var wrong findings
	tested := map[string]bool{}
	for _, w := range list {
		if w.client.Service == nil || tested[string(w.client.CABundle)] {
			continue
		}
		tested[string(w.client.CABundle)] = true
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(w.client.CABundle)
		name := w.client.Service.Name + "." + w.client.Service.Namespace + ".svc"
		for _, r := range t.Control.Replicas {
			if _, err := t.handshake(ctx, r.Pod, webhookPort,
				&tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12}); err != nil {
				wrong.add("%s, for %s: %v", r.Name, w.title(), err)
			}
		}
	}
	if len(tested) == 0 {
		return skip("no webhook calls a Service")
	}
	return conclude(wrong, nil, "signed by the CA bundle")
}

// injectionWorks fails if a pod that asks to be injected by the revision (by default "default") is
// not injected, or if the API server refuses it. The API server creates it as a dry run, without
// storing it. The check is skipped without permission to create pods.
func injectionWorks(ctx context.Context, t *Target) outcome {
	revision := t.Revision
	if revision == "" {
		revision = "default"
	}
	no := false
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "pilotctl-check-", Namespace: t.Namespace,
			Labels: map[string]string{"sidecar.istio.io/inject": "true", "istio.io/rev": revision},
		},
		Spec: corev1.PodSpec{
			Containers:                   []corev1.Container{{Name: "check", Image: "none"}},
			AutomountServiceAccountToken: &no,
		},
	}
	created, err := t.Client.Kubernetes.CoreV1().Pods(t.Namespace).Create(ctx, pod,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return requestFailed(err)
	}
	if !hasProxy(created) {
		return fail("a pod with the labels sidecar.istio.io/inject=true and istio.io/rev=%s in %s is not injected: no webhook selects it",
			revision, t.Namespace)
	}
	return pass("revision %s", revision)
}

// validationWorks fails if the API server accepts an invalid VirtualService, or cannot call the
// webhook. The API server creates it as a dry run, without storing it. It is skipped without
// permission, and fails if another error than the webhook's denial is returned.
func validationWorks(ctx context.Context, t *Target) outcome {
	invalid := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
		"metadata": map[string]any{"name": "pilotctl-check", "namespace": t.Namespace},
		"spec": map[string]any{"hosts": []any{"a..b"}, "http": []any{map[string]any{
			"route": []any{map[string]any{"destination": map[string]any{"host": "a..b"}}},
		}}},
	}}
	if t.Revision != "" {
		invalid.SetLabels(map[string]string{"istio.io/rev": t.Revision})
	}
	resource := schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "virtualservices"}
	_, err := t.Client.Dynamic.Resource(resource).Namespace(t.Namespace).Create(ctx, invalid,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return fail("an invalid VirtualService is accepted: the webhook does not answer or does not select it")
	case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "admission webhook"):
		return requestFailed(err)
	case strings.Contains(err.Error(), "failed calling webhook"):
		return fail("%v", err)
	case strings.Contains(err.Error(), "denied the request"):
		return pass("an invalid VirtualService is refused")
	}
	return requestFailed(err)
}

// noOrphanedWebhooks fails for each webhook of a control plane whose Service does not exist.
// Webhooks with a URL are skipped, and so are errors other than that it does not exist.
func noOrphanedWebhooks(ctx context.Context, t *Target) outcome {
	list, err := t.webhooks(ctx)
	if err != nil {
		return requestFailed(err)
	}
	var orphaned findings
	for _, w := range list {
		s := w.client.Service
		if s == nil {
			continue
		}
		if _, err := t.Client.Kubernetes.CoreV1().Services(s.Namespace).Get(ctx, s.Name,
			metav1.GetOptions{}); apierrors.IsNotFound(err) {
			orphaned.add("%s calls Service %s/%s, which does not exist", w.title(), s.Namespace, s.Name)
		}
	}
	return conclude(orphaned, nil, "%d webhooks", len(list))
}
