package ca

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// SelfSignedSecret and PluggedSecret are the names that Istio gives to the Secret with a root of its own making, and that operators
// give to the one with an authority that they bring.
const (
	SelfSignedSecret = "istio-ca-secret"
	PluggedSecret    = "cacerts"
)

// secretType is that of Istio's Secret with a root.
const secretType corev1.SecretType = "istio.io/ca-root"

// Secret keeps an authority's files in a Secret of Kubernetes.
type Secret struct {
	Client          kubernetes.Interface
	Namespace, Name string
	// ReadOnly is for what operators bring.
	ReadOnly bool
}

var _ Home = Secret{}

// String names the Secret.
func (s Secret) String() string { return "Secret " + s.Namespace + "/" + s.Name }

// Load reads the Secret. The version is Kubernetes' own.
func (s Secret) Load(ctx context.Context) (Files, string, error) {
	o, err := s.Client.CoreV1().Secrets(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Files{}, "", errNoAuthority
	}
	if err != nil {
		return Files{}, "", fmt.Errorf("read %s: %w", s, err)
	}
	f, err := filesOf(func(name string) []byte { return o.Data[name] })
	return f, o.ResourceVersion, err
}

// Store creates the Secret, or updates the version of it.
func (s Secret) Store(ctx context.Context, f Files, version string) error {
	if s.ReadOnly {
		return errReadOnly
	}
	o := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, ResourceVersion: version},
		Type:       secretType, Data: f.entries(),
	}
	var err error
	if version == "" {
		_, err = s.Client.CoreV1().Secrets(s.Namespace).Create(ctx, o, metav1.CreateOptions{})
	} else {
		_, err = s.Client.CoreV1().Secrets(s.Namespace).Update(ctx, o, metav1.UpdateOptions{})
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), version != "" && apierrors.IsNotFound(err):
		return errConflict
	case err != nil:
		return fmt.Errorf("write %s: %w", s, err)
	}
	return nil
}

// Watch watches the Secret.
func (s Secret) Watch(ctx context.Context, changed func()) error {
	only := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, s.Name).String()
	}
	secrets := s.Client.CoreV1().Secrets(s.Namespace)
	_, c := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				only(&o)
				return secrets.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				only(&o)
				return secrets.Watch(ctx, o)
			},
		},
		ObjectType: new(corev1.Secret),
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { changed() },
			UpdateFunc: func(any, any) { changed() },
			DeleteFunc: func(any) { changed() },
		},
	})
	c.RunWithContext(ctx)
	if err := ctx.Err(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
