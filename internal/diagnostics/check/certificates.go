package check

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// rootsConfigMap has the roots of the mesh under rootsKey, in every namespace.
	rootsConfigMap = "istio-ca-root-cert"
	rootsKey       = "root-cert.pem"
	// rootWarning, signerWarning and leafWarning are how long before their end certificates are
	// reported. Leaves are renewed long before.
	rootWarning   = 30 * 24 * time.Hour
	signerWarning = 7 * 24 * time.Hour
	leafWarning   = time.Hour
	// xdsPort is istiod's xDS port with TLS.
	xdsPort = 15012
)

// parseCertificates returns the certificates of a PEM text. It returns an error if there are none,
// or if one is malformed. Blocks of any type must be certificates; text after the last block is
// ignored.
func parseCertificates(text []byte) ([]*x509.Certificate, error) {
	var list []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, errors.New("it has no certificate in PEM")
	}
	return list, nil
}

// checkTimes adds to wrong each certificate that is not valid now, and to soon each that ends
// within limit. Of several with one subject, as in a rotation, only the last one to end counts.
// name begins the texts.
func (t *Target) checkTimes(name string, list []*x509.Certificate, limit time.Duration, wrong, soon *findings) {
	last := map[string]*x509.Certificate{}
	for _, c := range list {
		k := string(c.RawSubject)
		if last[k] == nil || c.NotAfter.After(last[k].NotAfter) {
			last[k] = c
		}
	}
	now := t.Now()
	for _, c := range last {
		switch {
		case now.After(c.NotAfter):
			wrong.add("%s: %s has expired at %s", name, c.Subject, c.NotAfter.Format(time.RFC3339))
		case now.Before(c.NotBefore):
			wrong.add("%s: %s is not valid before %s", name, c.Subject, c.NotBefore.Format(time.RFC3339))
		case c.NotAfter.Sub(now) < limit:
			soon.add("%s: %s expires at %s", name, c.Subject, c.NotAfter.Format(time.RFC3339))
		}
	}
}

// roots returns the PEM text of the mesh's roots in the namespace of the control plane. A ConfigMap
// without the key yields empty text, not an error.
func (t *Target) roots(ctx context.Context) ([]byte, error) {
	m, err := t.Client.Kubernetes.CoreV1().ConfigMaps(t.Namespace).Get(ctx, rootsConfigMap, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return []byte(m.Data[rootsKey]), nil
}

// rootsValid fails if a root of the mesh is not valid now, and warns if one expires within
// rootWarning. It also fails if the ConfigMap is missing or has no valid PEM. It is skipped without
// permission to read the ConfigMap.
func rootsValid(ctx context.Context, t *Target) outcome {
	text, err := t.roots(ctx)
	if err != nil {
		return requestFailed(err)
	}
	list, err := parseCertificates(text)
	if err != nil {
		return fail("ConfigMap %s/%s: %v", t.Namespace, rootsConfigMap, err)
	}
	var wrong, soon findings
	t.checkTimes("root", list, rootWarning, &wrong, &soon)
	return conclude(wrong, soon, "%d roots, the first expires at %s", len(list), firstEnd(list).Format(time.RFC3339))
}

// firstEnd returns the earliest end of the certificates, a list that must not be empty.
func firstEnd(list []*x509.Certificate) time.Time {
	first := list[0].NotAfter
	for _, c := range list {
		if c.NotAfter.Before(first) {
			first = c.NotAfter
		}
	}
	return first
}

// rootsPublished fails if a namespace has other roots than the control plane's, compared byte by
// byte, and warns if one has none. It leaves out terminating namespaces and the namespaces of
// Kubernetes itself. It is skipped without permission to read namespaces or ConfigMaps, and fails
// for another error of the API server.
func rootsPublished(ctx context.Context, t *Target) outcome {
	want, err := t.roots(ctx)
	if err != nil {
		return requestFailed(err)
	}
	namespaces, err := t.Client.Kubernetes.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return requestFailed(err)
	}
	maps, err := t.Client.Kubernetes.CoreV1().ConfigMaps("").List(ctx,
		metav1.ListOptions{FieldSelector: "metadata.name=" + rootsConfigMap})
	if err != nil {
		return requestFailed(err)
	}
	found := map[string]string{}
	for i := range maps.Items {
		found[maps.Items[i].Namespace] = maps.Items[i].Data[rootsKey]
	}
	var different, missing findings
	for i := range namespaces.Items {
		n := &namespaces.Items[i]
		text, there := found[n.Name]
		switch {
		case n.Status.Phase == corev1.NamespaceTerminating:
		// they are left out
		case n.Name == metav1.NamespaceSystem || n.Name == metav1.NamespacePublic || n.Name == "kube-node-lease":
		case !there: // it may not belong to the mesh
			missing.add("%s has no ConfigMap %s", n.Name, rootsConfigMap)
		case text != string(want):
			different.add("the roots in %s differ from those in %s", n.Name, t.Namespace)
		}
	}
	return conclude(different, missing, "%d namespaces", len(found))
}

// signersValid fails if the signing certificate of a replica has expired, and warns if it expires
// within signerWarning, by the replicas' metrics. It also fails if a replica does not answer, and
// is skipped if no replica signs certificates.
func signersValid(ctx context.Context, t *Target) outcome {
	answers, wrong := t.eachAnswer(ctx, "/metrics")
	var soon findings
	first := time.Time{}
	for name, body := range answers {
		seconds := metricValue(body, "citadel_server_cert_chain_expiry_timestamp")
		if seconds == 0 {
			continue
		}
		end := time.Unix(int64(seconds), 0).UTC()
		if first.IsZero() || end.Before(first) {
			first = end
		}
		switch left := end.Sub(t.Now()); {
		case left <= 0:
			wrong.add("%s: the signing certificate has expired at %s", name, end.Format(time.RFC3339))
		case left < signerWarning:
			soon.add("%s: the signing certificate expires at %s", name, end.Format(time.RFC3339))
		}
	}
	if first.IsZero() && len(wrong) == 0 {
		return skip("the control plane does not sign certificates")
	}
	return conclude(wrong, soon, "the first expires at %s", first.Format(time.RFC3339))
}

// xdsCertificate fails if a TLS handshake with the xDS port of a replica fails, as a proxy would do
// it. It warns if the server's certificate expires within leafWarning. If the roots cannot be read
// from the API server, it fails, or is skipped without permission.
func xdsCertificate(ctx context.Context, t *Target) outcome {
	text, err := t.roots(ctx)
	if err != nil {
		return requestFailed(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	var wrong, soon findings
	for _, r := range t.Control.Replicas {
		state, err := t.handshake(ctx, r.Pod, xdsPort, &tls.Config{
			RootCAs: roots, ServerName: t.serviceName() + "." + t.Namespace + ".svc", MinVersion: tls.VersionTLS12,
			NextProtos: []string{"h2"},
		})
		if err != nil {
			wrong.add("%s: %v", r.Name, err)
			continue
		}
		t.checkTimes(r.Name, state.PeerCertificates[:1], leafWarning, &wrong, &soon)
	}
	return conclude(wrong, soon, "%d replicas", len(t.Control.Replicas))
}
