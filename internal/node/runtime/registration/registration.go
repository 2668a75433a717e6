// Package registration ends a stub of NRI whose connection ends during the registration.
//
// NRI's stub registers, and then waits without a limit until the runtime calls Configure. If the
// connection ends in between, it waits forever. The only way out is to
// call Configure in the runtime's place. Configure writes fields of the stub that the registration
// reads, without a lock, so it may be called only while the stub waits for it. A Registration
// watches both requests of the connection for that: the stub's RegisterPlugin and the runtime's
// Configure.
package registration

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/containerd/ttrpc"
)

// ErrEnded is the error of a registration that was ended, and of a Configure that comes later.
var ErrEnded = errors.New("the connection to the runtime ended during the registration")

// Registration watches the registration of one stub. The zero value is ready to use. It is safe
// for use by several goroutines.
type Registration struct {
	mu sync.Mutex
	// configure calls Configure in the runtime's place. It is nil until the runtime has accepted
	// the stub.
	configure func(stub.Stub)
	// configured is true once Configure was called, by the runtime or in its place. ended is true
	// once End was called.
	configured, ended bool
}

// Option makes a stub show its registration.
func (r *Registration) Option() stub.Option {
	return stub.WithTTRPCOptions(
		[]ttrpc.ClientOpts{ttrpc.WithChainUnaryClientInterceptor(r.request)}, []ttrpc.ServerOpt{ttrpc.WithChainUnaryServerInterceptor(r.serve)},
	)
}

// request intercepts the requests of the stub.
func (r *Registration) request(ctx context.Context, request *ttrpc.Request, response *ttrpc.Response, info *ttrpc.UnaryClientInfo, next ttrpc.Invoker) error {
	if !strings.HasSuffix(info.FullMethod, "/RegisterPlugin") {
		return next(ctx, request, response)
	}
	// The stub has read its fields. The mutex orders that before a Configure, which the runtime may
	// call before it has answered.
	r.mu.Lock()
	ended := r.ended
	r.mu.Unlock()
	if ended {
		return ErrEnded
	}
	if err := next(ctx, request, response); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended && !r.configured {
		return ErrEnded
	}
	r.configure = func(s stub.Stub) {
		c, can := s.(interface {
			Configure(context.Context, *api.ConfigureRequest) (*api.ConfigureResponse, error)
		})
		if !can {
			return
		}
		ctx, cancel := context.WithCancelCause(ctx)
		cancel(ErrEnded)
		_, _ = c.Configure(ctx, &api.ConfigureRequest{}) // The answer is not used.
	}
	return nil
}

// serve intercepts the requests of the runtime.
func (r *Registration) serve(ctx context.Context, unmarshal ttrpc.Unmarshaler, info *ttrpc.UnaryServerInfo, method ttrpc.Method) (any, error) {
	if strings.HasSuffix(info.FullMethod, "/Configure") && !r.configures() {
		return nil, ErrEnded
	}
	return method(ctx, unmarshal)
}

// configures reports whether the runtime may call Configure.
func (r *Registration) configures() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.configured {
		return false
	}
	r.configured = true
	return true
}

// End makes the stub's Run return if it waits for Configure, or would wait for it. Its handler of
// Configure is then called with a context that has ended. The connection must be closed already.
// End may be called more than once.
func (r *Registration) End(s stub.Stub) {
	r.mu.Lock()
	waits := r.configure != nil && !r.configured
	r.configured, r.ended = r.configured || waits, true
	r.mu.Unlock()
	if waits {
		r.configure(s)
	}
}
