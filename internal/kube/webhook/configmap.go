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

// ConfigMap watches the ConfigMap that says what is injected.
type ConfigMap struct {
	Client          kubernetes.Interface
	Namespace, Name string
	// Env is what the template function of that name looks up.
	Env func(string) string
	// Set is told every good version.
	Set func(*inject.Config, inject.Values)
	// Looked is called once the ConfigMap was looked for, whether it is there or not; nil: nobody waits.
	Looked func()
	Log    *slog.Logger
}

// Run watches until the context ends. What is wrong with the ConfigMap is logged, and what it said before stays; so it does if
// it is deleted.
func (m *ConfigMap) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(m.Client, 0, informers.WithNamespace(m.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", m.Name).String()
		}))
	informer := factory.Core().V1().ConfigMaps().Informer()
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: m.take, UpdateFunc: func(_, updated any) { m.take(updated) },
	})
	if err != nil {
		return fmt.Errorf("watch ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	if cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) { // what was there has been taken
		if len(informer.GetStore().List()) == 0 {
			m.Log.Warn("there is no injection configuration: no pod can be injected", "configmap", m.Namespace+"/"+m.Name)
		}
		if m.Looked != nil {
			m.Looked()
		}
	}
	<-ctx.Done()
	return nil
}

func (m *ConfigMap) take(object any) {
	c, ok := object.(*corev1.ConfigMap)
	if !ok {
		return
	}
	config, values, err := inject.ParseConfigMap(c.Data, m.Env)
	if err != nil {
		m.Log.Error("the injection configuration cannot be used; the one before stays", "configmap", m.Namespace+"/"+m.Name, "err", err)
		return
	}
	for _, f := range config.Faults {
		m.Log.Error("a part of the injection configuration cannot be used", "configmap", m.Namespace+"/"+m.Name, "err", f)
	}
	m.Set(config, values)
	m.Log.Info("injection is configured", "configmap", m.Namespace+"/"+m.Name, "version", c.ResourceVersion, "templates", config.Templates())
}
