package bootstrap

import (
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// applicationLog returns a log format like the agent's, with time, level, scope, source line,
// message and thread. They are fields of a JSON object if json is set, otherwise separated by tabs.
func applicationLog(json bool) *bootstrapv3.Bootstrap_ApplicationLogConfig {
	format := &bootstrapv3.Bootstrap_ApplicationLogConfig_LogFormat{
		LogFormat: &bootstrapv3.Bootstrap_ApplicationLogConfig_LogFormat_TextFormat{
			TextFormat: "%Y-%m-%dT%T.%fZ\t%l\tenvoy %n %g:%#\t%v\tthread=%t",
		},
	}
	if json {
		format.LogFormat = &bootstrapv3.Bootstrap_ApplicationLogConfig_LogFormat_JsonFormat{
			JsonFormat: &structpb.Struct{Fields: map[string]*structpb.Value{
				"time":   structpb.NewStringValue("%Y-%m-%dT%T.%fZ"),
				"level":  structpb.NewStringValue("%l"),
				"scope":  structpb.NewStringValue("envoy %n"),
				"caller": structpb.NewStringValue("%g:%#"),
				"msg":    structpb.NewStringValue("%j"),
				"thread": structpb.NewStringValue("%t"),
			}},
		}
	}
	return &bootstrapv3.Bootstrap_ApplicationLogConfig{LogFormat: format}
}
