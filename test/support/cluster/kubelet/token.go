package kubelet

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tokens are the service account tokens of a Pod, by volume and path.
type tokens map[string]token

type token struct {
	text string
	// due is when another is requested: after 80% of its lifetime, as a kubelet does.
	due time.Time
}

// tokenFor returns a token bound to the Pod: the current one until it must be renewed.
func (t tokens) tokenFor(
	ctx context.Context,
	p *pod,
	volume string,
	want *corev1.ServiceAccountTokenProjection,
) (string, error) {
	id := volume + "/" + want.Path
	if old, ok := t[id]; ok && time.Now().Before(old.due) {
		return old.text, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: want.ExpirationSeconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{
			APIVersion: "v1",
			Kind:       "Pod",
			Name:       p.name,
			UID:        p.uid,
		},
	}}
	if want.Audience != "" {
		request.Spec.Audiences = []string{want.Audience}
	}
	asked := time.Now()
	account := accountOf(p.currentObject())
	got, err := p.k.client.CoreV1().
		ServiceAccounts(p.namespace).
		CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("ask for a token of %s: %w", account, err)
	}
	life := got.Status.ExpirationTimestamp.Sub(asked)
	t[id] = token{got.Status.Token, asked.Add(life * 4 / 5)}
	return got.Status.Token, nil
}
