// core/parallel: one persistent pool of threads. Work is claimed in chunks, so a slow core (a busy neighbour)
// takes fewer; a waiting thread spins briefly, then sleeps. What a chunk computes must not depend on who runs
// it.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

namespace fp8rl {

// A borrowed callable: no allocation, no copy.
template <class Signature>
class FunctionRef;
template <class R, class... Args>
class FunctionRef<R(Args...)> {
  public:
    template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, FunctionRef>>>
    FunctionRef(F&& f)
        : object_(const_cast<void*>(static_cast<const void*>(&f))), call_([](void* o, Args... args) -> R {
              return (*static_cast<std::remove_reference_t<F>*>(o))(std::forward<Args>(args)...);
          }) {}
    R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

  private:
    void* object_;
    R (*call_)(void*, Args...);
};

namespace parallel {

// Number of threads that share the work, the caller included. set_threads must not run inside for_each.
int threads();
void set_threads(int n);
// What the machine (and the process's affinity mask) offers.
int available_threads();

// Calls body(i, worker) once for each i in [0, chunks); worker is in [0, threads()). Returns when all are
// done. The first exception of a body is rethrown here. Nested calls run in the calling thread.
void for_each(int64_t chunks, FunctionRef<void(int64_t i, int worker)> body);

// Splits [0, n) into pieces of at least `grain` and calls body(begin, end, worker).
void for_range(int64_t n, int64_t grain, FunctionRef<void(int64_t begin, int64_t end, int worker)> body);

}  // namespace parallel
}  // namespace fp8rl
