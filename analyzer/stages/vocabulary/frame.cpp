// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stages/vocabulary/frame.hpp"

namespace fragscope::stages {
namespace {

struct KnownFunction {
  std::string_view name;
  std::string_view path;  ///< Must stand in the path; empty: anywhere.
  Stage stage;
  bool strong;
};

constexpr Stage kLaunch = Stage::kBeforeLaunch;
constexpr Stage kReading = Stage::kCheckpointReading;
constexpr Stage kPlacing = Stage::kWeightPlacement;
constexpr Stage kPrepare = Stage::kRuntimePreparation;
constexpr Stage kRequests = Stage::kRequests;

constexpr KnownFunction kFunctions[] = {
    // Device set-up.
    {"init_device", "", kLaunch, true},
    {"init_worker", "", kLaunch, false},
    {"init_torch_distributed", "", kLaunch, true},
    {"init_process_group", "", kLaunch, false},
    {"_lazy_init", "torch/cuda", kLaunch, false},

    // Serving engines: building modules, reading into them, repacking them.
    {"load_model", "", kPlacing, false},
    {"get_model", "", kPlacing, false},
    {"serve_inner", "text_generation_server", kPlacing, false},
    {"_initialize_model", "", kPlacing, true},
    {"initialize_model", "", kPlacing, true},
    {"create_weights", "", kPlacing, true},
    {"make_layers", "", kPlacing, true},
    {"process_weights_after_loading", "", kPlacing, true},
    {"post_load_weights", "", kPlacing, true},
    {"get_tensor", "text_generation_server", kPlacing, true},
    {"get_sharded", "text_generation_server", kPlacing, true},
    {"get_partial_sharded", "text_generation_server", kPlacing, true},
    {"get_multi_weights_col", "text_generation_server", kPlacing, true},
    {"load_weights", "", kReading, true},
    {"load_weights_and_postprocess", "", kReading, true},
    {"weight_loader", "", kReading, false},
    {"safetensors_weights_iterator", "", kReading, true},
    {"pt_weights_iterator", "", kReading, true},
    {"get_all_weights", "", kReading, true},

    // Serving engines: profiling, cache, capture, warm-up.
    {"profile_run", "", kPrepare, true},
    {"determine_num_available_blocks", "", kPrepare, true},
    {"determine_available_memory", "", kPrepare, true},
    {"profile_num_available_blocks", "", kPrepare, true},
    {"initialize_cache", "", kPrepare, true},
    {"init_cache_engine", "", kPrepare, true},
    {"_init_cache", "", kPrepare, true},
    {"_init_cache_engine", "", kPrepare, true},
    {"allocate_gpu_cache", "", kPrepare, true},
    {"_allocate_kv_cache", "", kPrepare, true},
    {"_allocate_kv_cache_tensors", "", kPrepare, true},
    {"allocate_kv_cache_tensors", "", kPrepare, true},
    {"initialize_from_config", "", kPrepare, true},
    {"initialize_kv_cache", "", kPrepare, true},
    {"initialize_kv_cache_tensors", "", kPrepare, true},
    {"_initialize_kv_caches", "", kPrepare, true},
    {"check_enough_kv_cache_memory", "", kPrepare, true},
    {"_check_enough_kv_cache_memory", "", kPrepare, true},
    {"get_kv_cache_config", "", kPrepare, true},
    {"get_kv_cache_configs", "", kPrepare, true},
    {"init_kv_cache", "", kPrepare, true},
    {"init_memory_pool", "", kPrepare, true},
    {"profile_max_num_token", "", kPrepare, true},
    {"init_cuda_graphs", "", kPrepare, true},
    {"init_device_graphs", "", kPrepare, true},
    {"init_attention_backend", "", kPrepare, true},
    {"capture", "", kPrepare, true},
    {"capture_one_batch_size", "", kPrepare, true},
    {"capture_model", "", kPrepare, true},
    {"capture_end", "", kPrepare, true},
    {"_capture_cudagraphs", "", kPrepare, true},
    {"profile_cudagraph_memory", "", kPrepare, true},
    {"_warm_up_model", "", kPrepare, true},
    {"warm_up_model", "", kPrepare, true},
    {"compile_or_warm_up_model", "", kPrepare, true},
    {"kernel_warmup", "", kPrepare, true},
    {"deep_gemm_warmup", "", kPrepare, true},
    {"flashinfer_autotune", "", kPrepare, true},
    {"_dummy_run", "", kPrepare, true},
    {"_dummy_sampler_run", "", kPrepare, true},
    {"_dummy_pooler_run", "", kPrepare, true},
    {"warmup", "", kPrepare, true},
    {"cuda_graph_warmup", "", kPrepare, true},
    {"_create_kv_cache_manager", "", kPrepare, true},
    {"configure_kv_cache_capacity", "", kPrepare, true},
    {"_run_autotuner_warmup", "", kPrepare, true},
    {"_run_cuda_graph_warmup", "", kPrepare, true},

    // Serving engines: requests. Profiling and capture call the inner ones too.
    {"step", "vllm/engine", kRequests, true},
    {"step", "vllm/v1/engine", kRequests, true},
    {"step_async", "vllm/engine", kRequests, true},
    {"engine_step", "vllm", kRequests, true},
    {"_process_engine_step", "", kRequests, true},
    {"run_engine_loop", "", kRequests, true},
    {"_run_engine", "", kRequests, true},
    {"generate", "vllm/entrypoints", kRequests, true},
    {"execute_model", "", kRequests, false},
    {"event_loop_normal", "", kRequests, true},
    {"event_loop_overlap", "", kRequests, true},
    {"run_batch", "sglang", kRequests, true},
    {"forward_extend", "sglang", kRequests, false},
    {"forward_decode", "sglang", kRequests, false},
    {"Prefill", "text_generation_server", kRequests, true},
    {"Decode", "text_generation_server", kRequests, true},
    {"generate_token", "text_generation_server", kRequests, false},
    {"_executor_loop", "tensorrt_llm", kRequests, true},

    // Transformers, Accelerate, PEFT, diffusers.
    {"from_pretrained", "", kReading, false},
    {"from_single_file", "", kReading, false},
    {"_load_pretrained_model", "", kReading, false},
    {"load_checkpoint_in_model", "", kReading, true},
    {"load_checkpoint_and_dispatch", "", kReading, false},
    {"load_state_dict", "", kReading, false},
    {"_load_state_dict_into_meta_model", "", kReading, false},
    {"set_module_tensor_to_device", "", kReading, false},
    {"load_model_dict_into_meta", "", kReading, true},
    {"load_shard_file", "transformers", kReading, true},
    {"caching_allocator_warmup", "", kPlacing, true},
    {"_caching_allocator_warmup", "", kPlacing, true},
    {"dispatch_model", "", kPlacing, true},
    {"_move_model_to_device", "", kPlacing, true},
    {"to", "torch/nn/modules/module.py", kPlacing, true},
    {"cuda", "torch/nn/modules/module.py", kPlacing, true},
    {"half", "torch/nn/modules/module.py", kPlacing, true},
    {"float", "torch/nn/modules/module.py", kPlacing, true},
    {"to", "diffusers/pipelines", kPlacing, true},
    {"prepare_model", "accelerate", kPlacing, true},
    {"prepare", "accelerate", kPlacing, false},
    {"get_peft_model", "", kPlacing, true},
    {"prepare_model_for_kbit_training", "", kPlacing, true},
    {"_sync_module_states", "", kPlacing, true},
    {"_init_param_handle_from_module", "", kPlacing, true},
    {"fully_shard", "", kPlacing, true},
    {"training_step", "", kRequests, true},
    {"prediction_step", "", kRequests, true},
    {"evaluation_loop", "", kRequests, true},
    {"_inner_training_loop", "transformers", kRequests, false},
    {"generate", "transformers", kRequests, true},
    {"backward", "torch/_tensor.py", kRequests, true},
    {"backward", "torch/autograd", kRequests, true},
    {"backward", "accelerate", kRequests, true},
    {"step", "torch/optim", kRequests, true},
    {"__call__", "diffusers/pipelines", kRequests, true},

    // DeepSpeed.
    {"_configure_distributed_model", "deepspeed", kPlacing, true},
    {"_post_init_method", "deepspeed", kPlacing, true},
    {"_zero_init_param", "deepspeed", kPlacing, true},
    {"_create_fp16_partitions_with_defragmentation", "deepspeed", kPlacing, true},
    {"_configure_optimizer", "deepspeed", kPrepare, true},
    {"_configure_zero_optimizer", "deepspeed", kPrepare, true},
    {"_configure_fp16_optimizer", "deepspeed", kPrepare, true},
    {"_configure_bf16_optimizer", "deepspeed", kPrepare, true},
    {"_setup_for_real_optimizer", "deepspeed", kPrepare, true},
    {"_create_fp32_partitions", "deepspeed", kPrepare, true},
    {"initialize_optimizer_states", "deepspeed", kPrepare, true},
    {"forward", "deepspeed/runtime/engine.py", kRequests, true},
    {"backward", "deepspeed/runtime", kRequests, true},
    {"step", "deepspeed/runtime", kRequests, true},
    {"train_batch", "deepspeed", kRequests, true},

    // Lightning, Megatron, torchtitan.
    {"model_to_device", "lightning", kPlacing, true},
    {"_run_sanity_check", "lightning", kPrepare, true},
    {"scale_batch_size", "lightning", kPrepare, true},
    {"advance", "lightning", kRequests, false},
    {"optimizer_step", "lightning", kRequests, true},
    {"load_checkpoint", "megatron", kReading, true},
    {"get_megatron_optimizer", "megatron", kPrepare, true},
    {"setup_model_and_optimizer", "megatron", kPrepare, false},
    {"train_step", "", kRequests, true},
    {"forward_backward_step", "torchtitan", kRequests, true},
    {"to_empty", "", kPlacing, true},
    {"init_weights", "torchtitan", kPlacing, true},
    {"load", "torchtitan/components/checkpoint", kReading, true},
};

}  // namespace

std::optional<Frame> parse_frame(std::string_view text) {
  constexpr std::string_view kFile = "File \"";
  const std::size_t file = text.find(kFile);
  if (file == std::string_view::npos) return std::nullopt;
  text.remove_prefix(file + kFile.size());
  const std::size_t quote = text.find('"');
  if (quote == std::string_view::npos) return std::nullopt;
  Frame frame;
  frame.path = text.substr(0, quote);
  text.remove_prefix(quote);
  constexpr std::string_view kIn = ", in ";
  const std::size_t in = text.find(kIn);
  if (in == std::string_view::npos) return frame;
  text.remove_prefix(in + kIn.size());
  frame.function = text.substr(0, text.find_first_of(" \t\r\n(\\"));
  // Python 3.11 and later may print a qualified name.
  const std::size_t dot = frame.function.rfind('.');
  if (dot != std::string_view::npos) frame.function.remove_prefix(dot + 1);
  return frame;
}

std::optional<FrameHint> hint_of(const Frame& frame) {
  for (const KnownFunction& known : kFunctions) {
    if (frame.function != known.name) continue;
    if (frame.path.find(known.path) == std::string_view::npos) continue;
    return FrameHint{known.stage, known.strong};
  }
  return std::nullopt;
}

std::optional<Stage> stage_of_method(std::string_view method) {
  if (method == "execute_model" || method == "start_worker_execution_loop") return kRequests;
  const auto hint = hint_of({.path = "vllm/worker/worker.py", .function = method});
  return hint ? std::optional(hint->stage) : std::nullopt;
}

}  // namespace fragscope::stages
