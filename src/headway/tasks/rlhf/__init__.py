"""Learning from preferences and rewards: SFT, reward models, DPO and PPO."""
