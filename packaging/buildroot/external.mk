include $(sort $(wildcard $(BR2_EXTERNAL_IOCREC_PATH)/package/*/*.mk))
