package webhook

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/meshpilot/meshpilot/internal/kube/inject"
)

// ConfigMapWatcher watches the ConfigMap with the injection templates and values.
type ConfigMapWatcher struct {
	Client          kubernetes.Interface
	Namespace, Name string
	// Env is the lookup of the template function env.
	Env func(string) string
	// OnUpdate is called with each valid version.
	OnUpdate func(*inject.Config, inject.Values)
	// OnSynced, if not nil, is called once after the first list, whether or not the ConfigMap
	// exists.
	OnSynced func()
	Log      *slog.Logger
}

// Run watches the ConfigMap until ctx ends, and calls OnSynced, if set, once when its first state
// was handled. If it is invalid or deleted, the last valid configuration stays in use; invalid ones
// and a ConfigMap that is missing at first are logged. It returns an error only if the informer
// cannot be set up.
func (m *ConfigMapWatcher) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(m.Client, 0, informers.WithNamespace(m.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", m.Name).String()
		}))
	informer := factory.Core().V1().ConfigMaps().Informer()
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: m.handleUpdate, UpdateFunc: func(_, updated any) { m.handleUpdate(updated) },
	})
	if err != nil {
		return fmt.Errorf("watch ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	if cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) { // the existing ConfigMap was handled
		if len(informer.GetStore().List()) == 0 {
			m.Log.Warn("injection ConfigMap not found; no pod can be injected", "configmap", m.Namespace+"/"+m.Name)
		}
		if m.OnSynced != nil {
			m.OnSynced()
		}
	}
	<-ctx.Done()
	return nil
}

// handleUpdate parses the ConfigMap and passes it to OnUpdate, or logs why it is invalid and leaves
// the last one in use. Invalid parts of a valid configuration are logged. Objects of other types
// are ignored.
func (m *ConfigMapWatcher) handleUpdate(object any) {
	c, ok := object.(*corev1.ConfigMap)
	if !ok {
		return
	}
	config, values, err := inject.ParseConfigMap(c.Data, m.Env)
	if err != nil {
		m.Log.Error(
			"injection configuration is invalid; keeping the last valid one",
			"configmap", m.Namespace+"/"+m.Name,
			"err", err,
		)
		return
	}
	for _, f := range config.Faults {
		m.Log.Error(
			"part of the injection configuration is invalid and ignored",
			"configmap", m.Namespace+"/"+m.Name,
			"err", f,
		)
	}
	m.OnUpdate(config, values)
	m.Log.Info(
		"injection configuration loaded",
		"configmap", m.Namespace+"/"+m.Name,
		"version", c.ResourceVersion,
		"templates", config.Templates(),
	)
}
