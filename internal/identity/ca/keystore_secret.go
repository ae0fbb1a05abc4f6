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

// SelfSignedSecret is the Secret in which Istio stores a self-signed root. PluggedSecret is the
// Secret in which operators provide their own authority.
const (
	SelfSignedSecret = "istio-ca-secret"
	PluggedSecret    = "cacerts"
)

// secretType is the type of Istio's Secret with a self-signed root.
const secretType corev1.SecretType = "istio.io/ca-root"

// SecretStore is a KeyStore in a Kubernetes Secret.
type SecretStore struct {
	Client          kubernetes.Interface
	Namespace, Name string
	// ReadOnly makes Store return errReadOnly; it is set for Secrets that operators provide.
	ReadOnly bool
}

var _ KeyStore = SecretStore{}

// String returns "Secret NAMESPACE/NAME".
func (s SecretStore) String() string { return "Secret " + s.Namespace + "/" + s.Name }

// Load returns the files in the Secret and its resource version. It returns errNoAuthority if there
// is no such Secret or no key in it. For a Secret without a key the version is set too, so that
// Store can update it.
func (s SecretStore) Load(ctx context.Context) (Files, string, error) {
	o, err := s.Client.CoreV1().Secrets(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Files{}, "", errNoAuthority
	}
	if err != nil {
		return Files{}, "", fmt.Errorf("read %s: %w", s, err)
	}
	f, err := filesFrom(func(name string) []byte { return o.Data[name] })
	return f, o.ResourceVersion, err
}

// Store creates the Secret if version is "", and otherwise replaces its data if that is its resource
// version. Its type, labels and annotations stay. It returns errReadOnly for a read-only store, and
// errConflict if the Secret exists, has another version or was deleted.
func (s SecretStore) Store(ctx context.Context, f Files, version string) error {
	if s.ReadOnly {
		return errReadOnly
	}
	secrets := s.Client.CoreV1().Secrets(s.Namespace)
	var err error
	if version == "" {
		o := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}, Type: secretType, Data: f.entries(),
		}
		_, err = secrets.Create(ctx, o, metav1.CreateOptions{})
	} else {
		var o *corev1.Secret
		if o, err = secrets.Get(ctx, s.Name, metav1.GetOptions{}); err == nil {
			o.ResourceVersion, o.Data = version, f.entries()
			_, err = secrets.Update(ctx, o, metav1.UpdateOptions{})
		}
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), version != "" && apierrors.IsNotFound(err):
		return errConflict
	case err != nil:
		return fmt.Errorf("write %s: %w", s, err)
	}
	return nil
}

// Watch runs an informer for the Secret and calls changed for each of its events, until ctx ends.
// It returns nil if ctx was canceled, and context.DeadlineExceeded if its deadline has passed.
func (s SecretStore) Watch(ctx context.Context, changed func()) error {
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
